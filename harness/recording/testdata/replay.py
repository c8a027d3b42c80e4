#!/usr/bin/env python3
"""Replays a log in the format of the kernel's dm-log-writes onto an image.

Written from the description of the format in drivers/md/dm-log-writes.c, as a
second reader beside powercut's own. The options are those of fstests' replay-log.
"""
import argparse
import os
import struct
import subprocess
import sys

FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


def entries(log):
    """Yields number, flags, byte offset, length in bytes, and data or text."""
    magic, version, count, sector = struct.unpack("<QQQI", log.read(28))
    if magic != 0x6A736677736872 or version != 1:
        sys.exit("not a log")
    log.seek(sector)
    for number in range(count):
        head = log.read(sector)
        start, sectors, flags, data_len = struct.unpack("<QQQQ", head[:32])
        length, data = sectors * sector, b""
        if flags & MARK:
            data = head[32:32 + data_len]
            assert head[32 + data_len] == 0, "a mark without a zero at its end"
        else:
            assert not any(head[32:]), "rubbish after an entry"
            if not flags & DISCARD:
                data = log.read(length)
                assert len(data) == length, "log is cut short"
        yield number, flags, start * sector, length, data
    assert not log.read(1), "rubbish after the log"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--log", required=True)
    p.add_argument("--replay", required=True)
    p.add_argument("--end-mark")
    p.add_argument("--limit", type=int)
    p.add_argument("--check", choices=["flush", "fua"], help="run --fsck after each such entry")
    p.add_argument("--fsck")
    o = p.parse_args()
    image = os.open(o.replay, os.O_WRONLY)
    checks = done = 0
    for number, flags, offset, length, data in entries(open(o.log, "rb")):
        if flags & DISCARD:
            data = bytes(length)
        if length:
            assert os.pwrite(image, data, offset) == length
        done = number + 1
        if o.check and flags & {"flush": FLUSH, "fua": FUA}[o.check]:
            checks += 1
            if subprocess.call(o.fsck, shell=True):
                sys.exit(f"fsck failed after entry {number}")
        if o.limit == done or flags & MARK and o.end_mark == data.decode():
            break
    else:
        if o.end_mark or o.limit:
            sys.exit("the end was not found")
    print(f"replayed {done} entries, checked {checks} times")


main()
