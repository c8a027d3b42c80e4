package guest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"powercut/guest/wire"
)

// maxExercise bounds the buffer of an exercise, in bytes.
const maxExercise = 16 << 20

// exercise makes requests to the drive itself, past the file system and the page
// cache, and tells how long they took.
func (a *agent) exercise(e wire.Exercise) error {
	out, err := runExercise(e)
	if err != nil {
		return &stageError{"exercise the drive", err}
	}
	return wire.Send(a.port, wire.Exercised, out)
}

func runExercise(e wire.Exercise) (out wire.Exertion, err error) {
	if e.Bytes < 512 || e.Bytes > maxExercise || e.Bytes%512 != 0 || e.Span < int64(e.Bytes) || e.Count < 1 {
		return out, fmt.Errorf("%d requests of %d bytes over %d cannot be made", e.Count, e.Bytes, e.Span)
	}
	dev, err := theDrive()
	if err != nil {
		return out, err
	}
	fd, err := unix.Open(dev, unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return out, fmt.Errorf("open %s: %w", dev, err)
	}
	defer unix.Close(fd)
	// O_DIRECT wants memory that is aligned, and a page is.
	buf, err := unix.Mmap(-1, 0, e.Bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return out, fmt.Errorf("get memory: %w", err)
	}
	defer unix.Munmap(buf)
	random := rand.New(rand.NewPCG(e.Seed, 0))
	for i := range buf {
		buf[i] = byte(random.Uint32())
	}
	return timeRequests(fd, buf, e, random)
}

func timeRequests(fd int, buf []byte, e wire.Exercise, random *rand.Rand) (out wire.Exertion, err error) {
	places := e.Span / int64(e.Bytes)
	latencies := make([]int64, e.Count)
	begun := time.Now()
	for i := range latencies {
		place := int64(i) % places
		if e.Random {
			place = random.Int64N(places)
		}
		sent := time.Now()
		if err := request(fd, buf, place*int64(e.Bytes), e); err != nil {
			return out, err
		}
		latencies[i] = int64(time.Since(sent))
	}
	out.Elapsed = int64(time.Since(begun))
	slices.Sort(latencies)
	out.Median = latencies[len(latencies)/2]
	return out, nil
}

func request(fd int, buf []byte, at int64, e wire.Exercise) error {
	do, what := unix.Pwrite, "write"
	if e.Read {
		do, what = unix.Pread, "read"
	}
	n, err := do(fd, buf, at)
	if err == nil && n != len(buf) {
		err = fmt.Errorf("%d of %d bytes", n, len(buf))
	}
	if err != nil {
		return fmt.Errorf("%s at %d: %w", what, at, err)
	}
	if e.Sync {
		if err := unix.Fdatasync(fd); err != nil {
			return fmt.Errorf("fdatasync: %w", err)
		}
	}
	return nil
}
