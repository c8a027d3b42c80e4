package scenarios

import "time"

// Kind tells what sort of drive a profile is.
func (p Profile) Kind() DriveKind {
	switch p {
	case IDE7200, IDE5400, Laptop5400:
		return Rotating
	case SSDSATA, SSDConsumer, SSDServer:
		return SolidState
	}
	return Untimed
}

// Timing returns the profile's values.
func (p Profile) Timing() Timing {
	const us, ms = time.Microsecond, time.Millisecond
	switch p {
	case IDE7200:
		return Timing{
			Profile: p, RPM: 7200, SectorsPerTrack: 900, SeekMin: 800 * us, SeekMax: 15 * ms,
			BusRate: 66e6, Overhead: 50 * us, Buffer: 8 << 20,
		}
	case IDE5400:
		return Timing{
			Profile: p, RPM: 5400, SectorsPerTrack: 390, SeekMin: 1500 * us, SeekMax: 15600 * us,
			BusRate: 66e6, Overhead: 100 * us, Buffer: 512 << 10,
		}
	case Laptop5400:
		return Timing{
			Profile: p, RPM: 5400, SectorsPerTrack: 1500, SeekMin: 2 * ms, SeekMax: 20800 * us,
			BusRate: 115e6, Overhead: 115 * us, Buffer: 8 << 20,
		}
	case SSDSATA:
		return Timing{
			Profile: p, BusRate: 550e6, Overhead: 17500 * time.Nanosecond, Buffer: 256 << 20,
			Channels: 8, Page: 16 << 10, Read: 75 * us, Program: 250 * us,
			Flush: 600 * us, FlushPage: 900 * us, FUA: 1500 * us,
		}
	case SSDConsumer:
		return Timing{
			Profile: p, BusRate: 6900e6, Overhead: 12 * us, Buffer: 1 << 30,
			Channels: 8, Page: 64 << 10, Read: 33 * us, Program: 375 * us,
			Flush: ms, FlushPage: 600 * us, FUA: 4 * ms,
		}
	case SSDServer:
		return Timing{
			Profile: p, BusRate: 3200e6, Overhead: 16500 * time.Nanosecond, Buffer: 1 << 30,
			Channels: 16, Page: 16 << 10, Read: 59 * us, Program: 131 * us,
		}
	}
	return Timing{Profile: NoTiming}
}

// Source says where one value of a profile comes from.
type Source struct {
	Field string // as in a scenario
	Text  string
}

// Sources tells for each value of a profile where it comes from. Data sheets are
// quoted from memory; "assumed" marks what nobody has measured or published.
func (p Profile) Sources() []Source {
	switch p {
	case IDE7200:
		return []Source{
			{"bus-rate", "Ultra DMA mode 4, 66.7 MB/s (ATA/ATAPI-5)"},
			{"overhead", "assumed"},
			{"buffer", "data sheet, Maxtor DiamondMax Plus 9 of 2003: 8 MB"},
			{"rpm", `"Why is fsync so much slower than O_SYNC?", March 2004: 8.41 ms for each O_SYNC write, on a disk of 7200 rpm`},
			{"sectors-per-track", "assumed, from some 55 MB/s sustained of disks of that time"},
			{"seek-min", "data sheet, the same Maxtor: track to track 0.8 ms"},
			{"seek-max", "assumed, so that the mean over random distances is 8.4 ms; its data sheet says less than 9.3 ms"},
		}
	case IDE5400:
		return []Source{
			{"bus-rate", "Ultra DMA mode 4, 66.7 MB/s (ATA/ATAPI-5)"},
			{"overhead", "assumed: twice that of ide-7200, for a slower controller"},
			{"buffer", "data sheet, IBM DJNA-351520 (Deskstar 25GP) of 1999: 512 KB"},
			{"rpm", `the same data sheet: 5400; it is the disk of "faster fsync and real fdatasync", October 1999`},
			{"sectors-per-track", "assumed, from 18 MB/s sustained in the outer zones"},
			{"seek-min", "assumed"},
			{"seek-max", `assumed, so that the mean over random distances is 9 ms: "~9msec" in the same thread`},
		}
	case Laptop5400:
		return []Source{
			{"bus-rate", `"[PATCH] fsync_range", April 2014, on a standard laptop disk: an op's time, less that of the processor, grows by 8.7 ms for each MB that is synced, from 10 kB to 100 kB`},
			{"overhead", "the same: what is left of 10 kB, 0.37 ms less the bus, over its two requests"},
			{"buffer", "data sheets of 2.5\" disks of that time (Western Digital Scorpio Blue): 8 MB"},
			{"rpm", "the same data sheets: 5400"},
			{"sectors-per-track", "the same thread: 172 ms for each 10 MB, which is more than the buffer holds, 58 MB/s, the ways from track to track included"},
			{"seek-min", "the same data sheets: track to track 2 ms"},
			{"seek-max", "assumed, so that the mean over random distances is 12 ms, as in the same data sheets"},
		}
	case SSDSATA:
		return []Source{
			{"bus-rate", "data sheet, Samsung 850 EVO of 2015: 540 MB/s read, 520 MB/s write; SATA, 6 Gbit/s, carries up to 550"},
			{"overhead", "the same: 40,000 writes of 4 KiB a second with one in flight, 25 µs each, less 7.5 µs of bus"},
			{"buffer", "assumed: half of its 512 MB of memory"},
			{"channels", "assumed: 8"},
			{"page", "assumed: 16 KiB is usual for flash of its time"},
			{"read", "the same: 10,000 reads of 4 KiB a second with one in flight, 100 µs each, less overhead and bus"},
			{"program", "assumed, so that eight channels keep up with 520 MB/s"},
			{"flush", "assumed: a page of the mapping, programmed as fast single-level flash"},
			{"flush-page", "assumed: a page of triple-level flash"},
			{"fua", "assumed: a flush of one page"},
		}
	case SSDConsumer:
		return []Source{
			{"bus-rate", "data sheet, Samsung 990 Pro of 2022: 7,450 MB/s read, 6,900 MB/s write"},
			{"overhead", "the same: 80,000 writes of 4 KiB a second with one in flight, 12.5 µs each, less the bus"},
			{"buffer", "assumed: the memory of the 1 TB model, 1 GB"},
			{"channels", "tests of its controller (Pascal): 8"},
			{"page", "assumed: four planes of 16 KiB"},
			{"read", "the same: 22,000 reads of 4 KiB a second with one in flight, 45 µs each, less overhead and bus"},
			{"program", "data sheet: 1,400 MB/s once its fast region is full"},
			{"flush", "tanelpoder.com, May 2025, 990 Pro with XFS: fdatasync of 8 KiB 608 a second, 1.64 ms each; that this is 1 ms and a page is assumed"},
			{"flush-page", "the same measurement: the rest"},
			{"fua", "the same measurement: open_datasync, which is one FUA write of 8 KiB, 249 a second, 4.02 ms each"},
		}
	case SSDServer:
		return []Source{
			{"bus-rate", "data sheet, Intel DC P4510 2 TB of 2018: 3,200 MB/s read"},
			{"overhead", "the same: latency of a write 18 µs, less the bus"},
			{"buffer", "assumed"},
			{"channels", "assumed"},
			{"page", "assumed: 16 KiB"},
			{"read", "the same: latency of a read 77 µs, less overhead and bus"},
			{"program", "the same: 2,000 MB/s write, over sixteen channels"},
			{"flush", "the same: power-loss protection, so that a flush has nothing to do. Give such a drive write-cache: off"},
			{"flush-page", "as flush"},
			{"fua", "as flush"},
		}
	}
	return nil
}
