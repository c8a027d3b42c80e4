package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// hole is the unit in which an image's zeros are left out of the file, in bytes.
const hole = 4096

// WriteImage writes the content of a drive of size bytes to a file: raw, with holes
// where it is zeros.
func WriteImage(path string, drive io.ReaderAt, size int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	buf, blank := make([]byte, 1<<20), make([]byte, hole)
	for at := int64(0); at < size; at += int64(len(buf)) {
		buf = buf[:min(size-at, int64(len(buf)))]
		if _, err := drive.ReadAt(buf, at); err != nil && err != io.EOF {
			return fmt.Errorf("write image: %w", err)
		}
		for from := 0; from < len(buf); from += hole {
			b := buf[from:min(from+hole, len(buf))]
			if bytes.Equal(b, blank[:len(b)]) {
				continue
			}
			if _, err := f.WriteAt(b, at+int64(from)); err != nil {
				return fmt.Errorf("write image: %w", err)
			}
		}
	}
	return nil
}
