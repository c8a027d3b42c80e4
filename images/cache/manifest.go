package cache

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
)

const (
	manifestName    = "manifest.json"
	manifestVersion = 1
	// manifestLimit bounds what is read back, in bytes.
	manifestLimit = 8 << 20
	// hashBlock is the unit of HashFile, in bytes.
	hashBlock = 4096
)

// manifest says that an entry is complete, and what it is made of.
type manifest struct {
	Version int       `json:"version"`
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Created time.Time `json:"created"`
	Files   []file    `json:"files"` // regular files, in lexical order
}

// file is one regular file of an entry.
type file struct {
	Path string `json:"path"` // relative to the entry
	Size int64  `json:"size"` // bytes
	Hash string `json:"hash"` // see HashFile
}

// seal makes the files in dir read-only, puts them on the disk, and writes the
// manifest last.
func seal(dir, kind, key string) error {
	m := manifest{Version: manifestVersion, Kind: kind, Key: key, Created: time.Now().UTC().Truncate(time.Second)}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return syncPath(path)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a folder", path)
		}
		f, err := sealFile(dir, path)
		m.Files = append(m.Files, f)
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, manifestName)
	if err := os.WriteFile(path, append(text, '\n'), 0o444); err != nil {
		return err
	}
	if err := syncPath(path); err != nil {
		return err
	}
	return syncPath(dir)
}

// sealFile returns the description of one file after making it durable.
func sealFile(dir, path string) (file, error) {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	if err := os.Chmod(path, info.Mode().Perm()&^0o222); err != nil {
		return file{}, err
	}
	hash, err := HashFile(path)
	if err != nil {
		return file{}, err
	}
	return file{Path: rel, Size: info.Size(), Hash: hash}, syncPath(path)
}

// check returns nil if the entry is there and whole.
func (e entry) check(hashes bool) error {
	m, err := readManifest(e.dir())
	if err != nil {
		return err
	}
	if m.Kind != e.kind || m.Key != e.key {
		return fmt.Errorf("check cache entry %s: its manifest is of %s %s", e.name, m.Kind, m.Key)
	}
	for _, f := range m.Files {
		if err := f.check(e.dir(), hashes); err != nil {
			return fmt.Errorf("check cache entry %s: %w", e.name, err)
		}
	}
	return nil
}

func (f file) check(dir string, hashes bool) error {
	if !filepath.IsLocal(f.Path) {
		return fmt.Errorf("file name %q leads out of the entry", f.Path)
	}
	path := filepath.Join(dir, f.Path)
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", f.Path)
	case info.Size() != f.Size:
		return fmt.Errorf("%s has %d bytes instead of %d", f.Path, info.Size(), f.Size)
	case !hashes:
		return nil
	}
	hash, err := HashFile(path)
	if err == nil && hash != f.Hash {
		err = fmt.Errorf("%s has changed", f.Path)
	}
	return err
}

func readManifest(dir string) (manifest, error) {
	var m manifest
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return m, err
	}
	defer f.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(f, manifestLimit))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if m.Version != manifestVersion {
		return m, fmt.Errorf("read %s: version %d is not %d", f.Name(), m.Version, manifestVersion)
	}
	return m, nil
}

// HashFile returns the xxhash of a file's content, computed over its size and
// over (offset, bytes) of each block that is not all zero. So a hole and a
// block of zeros hash alike, and a large sparse image is read only where it
// has data.
func HashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := hasher{digest: xxhash.New(), file: f, size: info.Size()}
	h.number(uint64(h.size))
	for pos := int64(0); pos < h.size; {
		start, end, err := h.extent(pos)
		if err != nil {
			return "", err
		}
		if err := h.blocks(start, end); err != nil {
			return "", err
		}
		pos = end
	}
	return fmt.Sprintf("%016x", h.digest.Sum64()), nil
}

type hasher struct {
	digest *xxhash.Digest
	file   *os.File
	size   int64
}

func (h *hasher) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	h.digest.Write(b[:]) //nolint:errcheck // never fails
}

// extent returns the next range that may hold data, in whole blocks. Where the
// file system cannot tell holes, that is all the rest.
func (h *hasher) extent(pos int64) (start, end int64, err error) {
	fd := int(h.file.Fd())
	start, err = unix.Seek(fd, pos, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return h.size, h.size, nil
	case err != nil:
		return pos, h.size, nil
	}
	end, err = unix.Seek(fd, start, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, &fs.PathError{Op: "seek", Path: h.file.Name(), Err: err}
	}
	start -= start % hashBlock
	end = min((end+hashBlock-1)/hashBlock*hashBlock, h.size)
	return max(start, pos), end, nil
}

// blocks adds the range [start, end); start is at a block's beginning.
func (h *hasher) blocks(start, end int64) error {
	var zero, block [hashBlock]byte
	buf := make([]byte, 64*hashBlock)
	for pos := start; pos < end; {
		n, err := h.file.ReadAt(buf[:min(int64(len(buf)), end-pos)], pos)
		if n == 0 {
			return fmt.Errorf("read %s at %d: %w", h.file.Name(), pos, err)
		}
		for off := 0; off < n; off += hashBlock {
			used := copy(block[:], buf[off:n])
			clear(block[used:])
			if block != zero {
				h.number(uint64(pos) + uint64(off))
				h.digest.Write(block[:]) //nolint:errcheck // never fails
			}
		}
		pos += int64(n)
	}
	return nil
}

// syncPath makes a file or folder durable.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}
