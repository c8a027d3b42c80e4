package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// LoadKind is what a Load reads.
type LoadKind string

// The kinds of load.
const (
	// Sequential is one large file for each reader, from its beginning to its end, as
	// dd(1) reads.
	Sequential LoadKind = "sequential"
	// ManyFiles is file after file of loadFile bytes, as tar(1) reads.
	ManyFiles LoadKind = "files"
)

// Load is what reads from the file system while a workload runs, over and over, and
// never from memory. The zero Load reads nothing.
type Load struct {
	Kind    LoadKind `json:"kind"`
	Size    int64    `json:"size"`    // bytes that there are to read, in all
	Readers int      `json:"readers"` // each with files of its own
}

const (
	// loadFolder holds the files of a load, below the mount point.
	loadFolder = "powercut-load"
	loadFile   = 64 << 10  // bytes of a file of ManyFiles
	loadChunk  = 128 << 10 // bytes of a read; what Linux reads ahead by default
	maxFiles   = 1 << 14
)

// The limits of a load.
const (
	MaxReaders  = 16
	MaxLoadSize = 1 << 30 // with ManyFiles the files are maxFiles at most
)

// files lists what one reader reads, below dir, and the size of each file.
func (l Load) files(dir string, reader int) (paths []string, size int64) {
	n, size := 1, l.Size/int64(l.Readers)
	if l.Kind == ManyFiles {
		n, size = int(min(max(size/loadFile, 1), maxFiles)), loadFile
	}
	for i := range n {
		paths = append(paths, filepath.Join(dir, loadFolder, fmt.Sprintf("%d-%d", reader, i)))
	}
	return paths, size
}

// Prepare makes the files, in the file system mounted at dir, and has them written
// out, so that all that is left to do is to read them.
func (l Load) Prepare(dir string) error {
	if l == (Load{}) {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(dir, loadFolder), 0o755); err != nil {
		return fmt.Errorf("make load: %w", err)
	}
	for reader := range l.Readers {
		paths, size := l.files(dir, reader)
		for _, path := range paths {
			if err := fillLoad(path, size); err != nil {
				return fmt.Errorf("make load: %w", err)
			}
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("make load: %w", err)
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("sync load: %w", err)
	}
	return nil
}

func fillLoad(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	zeros := make([]byte, loadChunk)
	for left := size; left > 0 && err == nil; left -= loadChunk {
		_, err = f.Write(zeros[:min(left, loadChunk)])
	}
	return errors.Join(err, f.Close())
}

// Begin starts the readers. They stop when stop is called, or with the machine.
func (l Load) Begin(dir string) (stop func()) {
	var over atomic.Bool
	for reader := range l.Readers {
		paths, _ := l.files(dir, reader)
		go func() {
			buf := make([]byte, loadChunk)
			for i := 0; !over.Load(); i = (i + 1) % len(paths) {
				if err := readOnce(paths[i], buf, &over); err != nil {
					fmt.Fprintf(os.Stderr, "powercut guest: load: %v\n", err)
					return
				}
			}
		}()
	}
	return func() { over.Store(true) }
}

// readOnce reads a file that is not in memory, and leaves it so.
func readOnce(path string, buf []byte, over *atomic.Bool) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	// What is clean leaves the page cache at once (posix_fadvise(2)).
	if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("forget %s: %w", path, err)
	}
	for !over.Load() {
		n, err := unix.Read(fd, buf)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if n == 0 {
			break
		}
	}
	return nil
}

// Validate says what is impossible in the load. The error begins with the name of
// the field that has to change.
func (l Load) Validate() error {
	switch {
	case l == (Load{}):
		return nil
	case l.Kind != Sequential && l.Kind != ManyFiles:
		return fmt.Errorf("kind: %q is not one of %s, %s", l.Kind, Sequential, ManyFiles)
	case l.Readers < 1 || l.Readers > MaxReaders:
		return fmt.Errorf("readers: %d is not in the range from 1 to %d", l.Readers, MaxReaders)
	case l.Size < int64(l.Readers)*loadFile || l.Size > MaxLoadSize:
		return fmt.Errorf("size: %d is not in the range from %d, for each reader %d, to %d", l.Size, int64(l.Readers)*loadFile, loadFile, MaxLoadSize)
	}
	return nil
}
