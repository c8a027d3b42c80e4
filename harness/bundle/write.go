package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"powercut/harness/internal/sparse"
)

// source is a file that becomes a member.
type source struct{ name, path string }

// write writes a bundle with those members.
func write(w io.Writer, m Manifest, files []source) error {
	m.Schema, m.Powercut = Schema, program()
	for _, f := range files {
		member, err := measure(f)
		if err != nil {
			return err
		}
		m.Members = append(m.Members, member)
	}
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	// The encoder ends the frame with a check sum of all that is in it.
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	if err := add(t, manifestFile, int64(len(head)+1), bytes.NewReader(append(head, '\n'))); err != nil {
		return err
	}
	for i, f := range files {
		if err := addFile(t, m.Members[i], f.path); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// measure finds out how large a file is, and how much of it is not zeros.
func measure(f source) (Member, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return Member{}, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return Member{}, err
	}
	m := Member{Name: filepath.ToSlash(f.name), Bytes: info.Size()}
	err = sparse.Blocks(in, m.Bytes, func(_ int64, b []byte, zeros bool) error {
		if !zeros {
			m.Data += int64(len(b))
		}
		return nil
	})
	return m, err
}

func add(t *tar.Writer, name string, size int64, r io.Reader) error {
	// Owner and time are no part of what a bundle says.
	err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg, Format: tar.FormatPAX})
	if err == nil {
		_, err = io.CopyN(t, r, size)
	}
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

func addFile(t *tar.Writer, m Member, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	return add(t, m.Name, m.Bytes, in)
}
