package report

import (
	"fmt"

	"powercut/guest/workload"
	"powercut/harness/latency"
	"powercut/harness/trace"
	"powercut/harness/verdict"
)

// ext3Overwrite is a run in which everything held: a drive without a write
// cache, with the timing of a disk, and all four calls.
func ext3Overwrite() *Document {
	ms := func(mean, p50, p99, longest float64) latency.Summary {
		return latency.Summary{N: 163, Mean: mean * 1e6, P50: int64(p50 * 1e6), P99: int64(p99 * 1e6), Max: int64(longest * 1e6)}
	}
	call := func(name string, s latency.Summary, journal, metadata float64) Call {
		return Call{
			Call: name, Folder: name,
			Cut:     Cut{Reason: "op 162 had begun, and 4 events of the drive later (random from the seed)", Position: 1204, Op: 164, Acked: 163, Volatile: 1, Dropped: 1},
			Counts:  verdict.Counts{Ops: 164, Acked: 163, Kept: 163, Absent: 1},
			Latency: s,
			Bill: trace.Bill{
				Ops: 163, DataWrites: 1, JournalWrites: journal, MetadataWrites: metadata,
				FUAWrites: 1 + journal + metadata, DriveTime: s.Mean * 0.98,
			},
			Recovery: verdict.Recovery{Class: verdict.Recovered},
		}
	}
	return &Document{
		Schema:   Schema,
		Scenario: "ext3-overwrite",
		About:    "1-byte overwrites of a synced file on ext3, on a 7200 rpm disk without a write cache: what each sync call costs",
		Seed:     20030614,
		Folder:   "runs/2026-03-02T10-41-07-ext3-overwrite-20030614",
		Machine: Machine{
			KernelID: "debian:6.1:6.1.0-57-amd64:0123456789abcdef", Package: "linux-image-6.1.0-57-amd64 6.1.180-1",
			ModulesFrom: "/lib/modules/6.1.0-57-amd64", Loaded: []string{"jbd2=0123456789abcdef", "ext4=fedcba9876543210"}, Params: []string{"maxcpus=1"},
			Kernel: "debian:6.1", Release: "6.1.0-57-amd64", QEMU: "7.2.22", Accelerator: "tcg",
			Reason: "TCG, because a guest did not come up under KVM: CPU model host was not up when the limit of 6s was over", Ledger: LedgerMemory, MemoryMiB: 192,
		},
		Filesystem: Filesystem{Type: "ext3", Bytes: 64 << 20, Mkfs: []string{"-b", "4096", "-J", "size=4"}, Mount: "data=ordered", Digest: "5c1f0e9a77d3b246"},
		Drive:      Drive{Bus: "ide", Timing: "ide-7200", AtCut: "lose"},
		Workload:   Workload{Kind: "overwrite", Size: 512_000, Count: 200, Bytes: 1, Stride: 512},
		Calls: []Call{
			call("O_SYNC", ms(24.4, 24.9, 33.4, 41.6), 2.01, 0.1),
			call("O_DSYNC", ms(8.71, 8.33, 16.7, 25.0), 0.02, 0),
			call("fsync", ms(25.3, 25.0, 33.3, 42.2), 2.03, 0.1),
			call("fdatasync", ms(8.41, 8.33, 16.7, 24.9), 0, 0),
		},
		Expectations: []Expectation{
			{Text: "O_SYNC: recovery recovered", Found: "recovered", Held: true},
			{Text: "O_DSYNC: recovery recovered", Found: "recovered", Held: true},
			{Text: "fsync: recovery recovered", Found: "recovered", Held: true},
			{Text: "fdatasync: recovery recovered", Found: "recovered", Held: true},
			{Text: "O_SYNC: lost 0", Found: "0", Held: true},
			{Text: "O_DSYNC: lost 0", Found: "0", Held: true},
			{Text: "fsync: lost 0", Found: "0", Held: true},
			{Text: "fdatasync: lost 0", Found: "0", Held: true},
			{Text: "fdatasync: journal-writes 0", Found: "0.00", Held: true},
			{Text: "O_DSYNC: p50 7.5ms..9.166ms", Found: "8.33 ms", Held: true},
			{Text: "fdatasync: p50 7.5ms..9.166ms", Found: "8.33 ms", Held: true},
			{Text: "fsync / fdatasync >= 2.5", Found: "3.00", Held: true},
		},
		Held:    true,
		Elapsed: 38.2,
	}
}

// barrierOff is a run whose expectations were not met: a volatile cache that no
// flush ever reaches, so that acknowledged ops are lost; and a file system that
// one of the crash states left unmountable.
func barrierOff() *Document {
	fsync := Call{
		Call: "fsync", Folder: "fsync",
		Cut:      Cut{Reason: "op 163 (random from the seed)", Position: 911, Op: 163, Acked: 162, Volatile: 168, Dropped: 168},
		Counts:   verdict.Counts{Ops: 163, Acked: 162, Kept: 112, Lost: 50, Early: 0, Absent: 1},
		Latency:  latency.Summary{N: 162, Mean: 402_311.7, P50: 381_204, P99: 1_204_872, Max: 3_120_004},
		Bill:     trace.Bill{Ops: 162, DataWrites: 1, JournalWrites: 2.02, DriveTime: 41_000},
		Recovery: verdict.Recovery{Class: verdict.Recovered},
	}
	for k := 113; k <= 162; k++ {
		f := finding(k, trace.NoFlush)
		f.Why = fmt.Sprintf("request %d carried its data and was answered at position %d, yet it was volatile at the ack (position %d): the drive received no flush in the whole run", f.CarriedBy[0], 5*k+100, f.AckedAt)
		if k == 140 {
			f.CarriedBy, f.Reason, f.Why = nil, trace.NoWrite, "no write carried its data, before the ack or after it"
		}
		fsync.Findings = append(fsync.Findings, f)
	}
	fdatasync := Call{
		Call: "fdatasync", Folder: "fdatasync",
		Cut:     Cut{Reason: "op 91 (random from the seed)", Position: 512, Op: 91, Acked: 90, Volatile: 97, Dropped: 97},
		Counts:  verdict.Counts{Ops: 91, Acked: 90},
		Latency: latency.Summary{N: 90, Mean: 182_311.7, P50: 171_204, P99: 904_872, Max: 1_120_004},
		Bill:    trace.Bill{Ops: 90, DataWrites: 1, DriveTime: 20_500},
		Recovery: verdict.Recovery{
			Class: verdict.MountFailed, Detail: "mount /dev/sda: structure needs cleaning (EUCLEAN)",
			Console: []string{
				"[    2.114907] EXT4-fs error (device sda): ext4_fill_super:5238: inode #2: comm checker: iget: root inode unallocated",
				"[    2.115002] EXT4-fs (sda): get root inode failed",
				"[    2.115310] EXT4-fs (sda): mount failed",
			},
		},
	}
	torn := Call{
		Call: "O_DSYNC", Folder: "O_DSYNC",
		Cut:      Cut{Reason: "op 20 (random from the seed)", Position: 130, Op: 20, Acked: 19, Volatile: 4, Dropped: 2, Torn: 1},
		Counts:   verdict.Counts{Ops: 20, Acked: 19, Kept: 16, Lost: 1, Unpromised: 1, Torn: 1, Foreign: 1, Failed: 2, Ambiguous: 2},
		Latency:  latency.Summary{N: 19, Mean: 150_000, P50: 140_000, P99: 300_000, Max: 300_000},
		Bill:     trace.Bill{Ops: 19, DataWrites: 1, MetadataWrites: 0.21, DriveTime: 20_500},
		Recovery: verdict.Recovery{Class: verdict.Recovered},
		Errors:   &Errors{First: 18, Errno: "EIO", Last: "EROFS", Count: 2, Asked: 2, Told: 1, Again: "success"},
		Size:     "8192 bytes, but 12288 were acknowledged",
		Setup:    "lost: zeros",
		Stray:    "byte 0x41 at bytes 100000+12",
		Findings: []Finding{
			{
				OpVerdict: verdict.OpVerdict{
					Op: 3, Extent: workload.Extent{Offset: 8192, Length: 4096}, Acked: true, Class: verdict.Lost,
					Missing: workload.Extent{Offset: 8704, Length: 512}, Found: "the content of op 1",
				},
				AckedAt: 41, AckedTime: 2204.7613, CarriedBy: []uint64{12, 13, 17}, Reason: trace.FlushIgnored,
				Why: "request 17 carried its data and was answered at position 38, yet it was volatile at the ack (position 41): flush 18 reached the drive, which ignored it (fault)",
			},
			{
				OpVerdict: verdict.OpVerdict{
					Op: 20, Extent: workload.Extent{Offset: 77824, Length: 4096}, Class: verdict.Foreign,
					Found: "byte 0x41",
				},
			},
		},
	}
	return &Document{
		Schema: Schema, Scenario: "barrier-off",
		About:  "ext4 mounted without barriers on a drive with a volatile cache: acknowledged writes must be lost",
		Seed:   18446744073709551615,
		Folder: "runs/2026-03-02T10-44-51-barrier-off-18446744073709551615",
		Machine: Machine{
			Kernel: "debian:5.10", Release: "5.10.0-39-amd64", QEMU: "7.2.22", Accelerator: "kvm",
			Reason: "it answered in 0.4 s", Ledger: LedgerSerial, MemoryMiB: 192,
			Modules: []Module{
				{Name: "fsync_range", Variant: "fsync_range", Path: "/c/fsync_range.ko", BuildID: "c7a9168eaf470ce4"},
				{Name: "ext4", Path: "/home/me/linux/fs/ext4/ext4.ko", BuildID: "0d3f"},
			},
		},
		Filesystem: Filesystem{Type: "ext4", Bytes: 64 << 20, ExternalJournal: 16 << 20, Mount: "barrier=0", Recovery: "ro,noload"},
		Drive:      Drive{Bus: "ide", WriteCache: true, Timing: "none", Faults: []string{"flush-ignored"}, AtCut: "lose"},
		Workload:   Workload{Kind: "overwrite", Size: 1 << 20, Count: 200, Bytes: 4096, Stride: 4096, Observers: 2, Chunk: 512, Allocate: "fallocate", Threads: 4, Gap: 1.5, Sync: workload.Extent{Offset: 8192, Length: 16384}},
		Calls:      []Call{torn, fsync, fdatasync},
		Expectations: []Expectation{
			{Text: "O_DSYNC: recovery recovered", Found: "recovered", Held: true},
			{Text: "fsync: recovery recovered", Found: "recovered", Held: true},
			{Text: "fdatasync: recovery recovered", Found: "mount failed", Held: false},
			{Text: "O_DSYNC: lost some", Found: "1", Held: true},
			{Text: "fsync: lost some", Found: "50", Held: true},
			{Text: "fdatasync: lost some", Found: "unknown: nothing was read back", Held: false},
			{Text: "O_DSYNC: foreign 0", Found: "1", Held: false},
			{Text: "O_DSYNC: the size of the file as it should be", Found: "8192 bytes, but 12288 were acknowledged", Held: false},
		},
		Elapsed: 11.04,
	}
}

func finding(k int, reason trace.Reason) Finding {
	e := workload.Extent{Offset: int64(k-1) * 4096, Length: 4096}
	return Finding{
		OpVerdict: verdict.OpVerdict{
			Op: k, Extent: e, Acked: true, Class: verdict.Lost, Missing: e, Found: "the content from before op 1",
		},
		AckedAt: 5*k + 104, AckedTime: float64(k)*4.113 + 200, CarriedBy: []uint64{uint64(2*k + 60)}, Reason: reason,
		Why: fmt.Sprintf("the sentence of op %d", k),
	}
}
