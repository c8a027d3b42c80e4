// Package sparse copies images of drives so that zeros become holes.
package sparse

import (
	"bytes"
	"io"
	"os"
)

// Block is the unit in which zeros are told from data, in bytes.
const Block = 4096

// Blocks reads size bytes and calls each for every block of them, of which the last may
// be short, with its place and whether it is zeros. It fails where r ends before.
func Blocks(r io.Reader, size int64, each func(at int64, b []byte, zeros bool) error) error {
	var none [Block]byte
	buf := make([]byte, 256*Block)
	for at := int64(0); at < size; at += int64(len(buf)) {
		buf = buf[:min(size-at, int64(len(buf)))]
		if _, err := io.ReadFull(r, buf); err != nil {
			return err
		}
		for from := 0; from < len(buf); from += Block {
			b := buf[from:min(from+Block, len(buf))]
			if err := each(at+int64(from), b, bytes.Equal(b, none[:len(b)])); err != nil {
				return err
			}
		}
	}
	return nil
}

// Copy fills a new file with size bytes, with holes where they are zeros.
func Copy(f *os.File, r io.Reader, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	return Blocks(r, size, func(at int64, b []byte, zeros bool) error {
		if zeros {
			return nil
		}
		_, err := f.WriteAt(b, at)
		return err
	})
}
