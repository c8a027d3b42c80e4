package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// zeroPage is compared with; never written.
var zeroPage = make([]byte, pageSize)

// findExtents lists what of the memory is not zero: whole pages, runs of them
// joined up to maxExtent. Ranges that were never touched are skipped without
// being looked at (lseek(2), SEEK_DATA).
func findExtents(ctx context.Context, mem *ram) ([]extent, error) {
	var out []extent
	size := int64(len(mem.bytes))
	for pos := int64(0); pos < size; {
		start, end, err := nextData(mem.file, pos, size)
		if err != nil {
			return nil, fmt.Errorf("scan guest memory: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("scan guest memory: %w", err)
		}
		for page := start; page < end; page += pageSize {
			if !bytes.Equal(mem.bytes[page:page+pageSize], zeroPage) {
				out = join(out, page)
			}
		}
		pos = end
	}
	return out, nil
}

// nextData is the next range from pos on that a file holds; start is size if
// there is none.
func nextData(f *os.File, pos, size int64) (start, end int64, err error) {
	fd := int(f.Fd())
	start, err = unix.Seek(fd, pos, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil
	}
	if err != nil {
		return 0, 0, err
	}
	end, err = unix.Seek(fd, start, unix.SEEK_HOLE)
	return start, min(end, size), err
}

// join appends one page to the last extent, or opens a new one.
func join(out []extent, page int64) []extent {
	if n := len(out); n > 0 {
		last := &out[n-1]
		if last.Offset+last.Length == page && last.Length < maxExtent {
			last.Length += pageSize
			return out
		}
	}
	return append(out, extent{Offset: page, Length: pageSize})
}

// saveRAM writes what of the memory is not zero to path, a sparse file of the
// memory's size, and returns where that is, with hashes.
func saveRAM(ctx context.Context, mem *ram, path string) ([]extent, error) {
	extents, err := findExtents(ctx, mem)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("save guest memory: %w", err)
	}
	err = f.Truncate(int64(len(mem.bytes)))
	for i := range extents {
		if err = errors.Join(err, ctx.Err()); err != nil {
			break
		}
		e := &extents[i]
		data := mem.bytes[e.Offset : e.Offset+e.Length]
		e.Sum = sum(xxhash.Sum64(data))
		_, err = f.WriteAt(data, e.Offset)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("save guest memory: %w", err)
	}
	return extents, nil
}

// loadRAM copies the extents of the file at path into fresh memory and checks
// each while its bytes are at hand. Extents are dealt out to one worker per
// processor.
func loadRAM(ctx context.Context, path string, extents []extent, mem *ram) error {
	src, err := os.Open(path)
	if err != nil {
		return damaged("%w", err)
	}
	defer src.Close()
	g, ctx := errgroup.WithContext(ctx)
	workers := min(runtime.GOMAXPROCS(0), 4)
	for w := range workers {
		g.Go(func() error {
			buf := make([]byte, maxExtent)
			for i := w; i < len(extents); i += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := loadExtent(src, extents[i], mem.file, buf); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// loadExtent copies one extent. Writing to the memory's file is cheaper than
// storing through the mapping: a page written whole is not cleared first.
func loadExtent(src *os.File, e extent, dst *os.File, buf []byte) error {
	buf = buf[:e.Length]
	if _, err := src.ReadAt(buf, e.Offset); err != nil {
		if errors.Is(err, io.EOF) {
			return damaged("%s is too short", ramName)
		}
		return fmt.Errorf("load guest memory: %w", err)
	}
	if sum(xxhash.Sum64(buf)) != e.Sum {
		return damaged("%s is not what was saved at %d", ramName, e.Offset)
	}
	if _, err := dst.WriteAt(buf, e.Offset); err != nil {
		return fmt.Errorf("load guest memory: %w", err)
	}
	return nil
}
