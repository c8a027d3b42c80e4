/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface of /dev/fsync_range, for programs and for the module. The Go
 * side is package guest/fsyncrange.
 */
#ifndef POWERCUT_FSYNC_RANGE_H
#define POWERCUT_FSYNC_RANGE_H

#include <linux/ioctl.h>
#include <linux/types.h>

struct fsync_range {
	__s32 fd;	/* of the file to be synced, in the caller's table */
	__u32 datasync;	/* 0: as fsync(2), 1: as fdatasync(2) */
	__u64 start;	/* first byte */
	__u64 length;	/* in bytes; 0: to the end of the file */
};

#define FSYNC_RANGE _IOW('p', 0xC7, struct fsync_range)

#endif
