package bundle

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"powercut/harness/internal/room"
	"powercut/harness/internal/sparse"
)

// Limits of what is read of a file that may be anything.
const (
	maxManifest = 64 << 20  // bytes
	maxWindow   = 128 << 20 // bytes of memory that the decoder may take
)

// extract unpacks a bundle into a folder: as a whole, or it fails. Nothing is written
// before there is room for all.
func extract(path, folder string) (*Manifest, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe that nobody writes there is nothing
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	defer z.Close()
	t := tar.NewReader(z)
	m, err := readManifest(t, path)
	if err != nil {
		return nil, err
	}
	if err := room.Disk(folder, m.data()); err != nil {
		return nil, fmt.Errorf("unpack bundle %s: %w (TMPDIR says where)", path, err)
	}
	for _, member := range m.Members {
		if err := extractMember(t, member, folder); err != nil {
			return nil, damaged(path, member.Name, err)
		}
	}
	if _, err := t.Next(); err != io.EOF {
		return nil, damaged(path, "its end", or(err, errors.New("there is another member")))
	}
	// What follows is the end of the frame, with its check sum.
	if _, err := io.Copy(io.Discard, z); err != nil {
		return nil, damaged(path, "its end", err)
	}
	return m, nil
}

// damaged is the error of a bundle that is not as it was written; errors of this
// machine stay what they are.
func damaged(path, where string, err error) error {
	var local *os.PathError
	if errors.As(err, &local) {
		return fmt.Errorf("unpack bundle %s: %w", path, err)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("open bundle %s: %w: %s: %w", path, ErrDamaged, where, err)
}

func or(err, otherwise error) error {
	if err == nil {
		return otherwise
	}
	return err
}

// readManifest reads the first member. Anything may be in the file.
func readManifest(t *tar.Reader, path string) (*Manifest, error) {
	h, err := t.Next()
	if errors.Is(err, zstd.ErrMagicMismatch) || errors.Is(err, tar.ErrHeader) || err == nil && h.Name != manifestFile || err == io.EOF {
		return nil, &FormatError{path, "it is no bundle: a bundle is a tar archive, compressed with zstd, that begins with " + manifestFile}
	}
	if err != nil {
		return nil, damaged(path, manifestFile, err)
	}
	text, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err != nil {
		return nil, damaged(path, manifestFile, err)
	}
	var version struct{ Schema, Powercut string }
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, damaged(path, manifestFile, err)
	}
	if version.Schema != Schema {
		return nil, &FormatError{path, fmt.Sprintf("it is of version %q, made by powercut %s; this powercut reads %q", version.Schema, version.Powercut, Schema)}
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, damaged(path, manifestFile, err)
	}
	if err := m.check(); err != nil {
		return nil, damaged(path, manifestFile, err)
	}
	return m, nil
}

// check says what is impossible in the list of members.
func (m *Manifest) check() error {
	var names []string
	for _, f := range m.Members {
		switch {
		case !filepath.IsLocal(f.Name) || f.Name == manifestFile || slices.Contains(names, f.Name):
			return fmt.Errorf("there cannot be a member %q", f.Name)
		case f.Bytes < 0 || f.Data < 0 || f.Data > f.Bytes:
			return fmt.Errorf("member %s cannot have %d bytes, %d of them data", f.Name, f.Bytes, f.Data)
		}
		names = append(names, f.Name)
	}
	if m.Verdict == nil || !filepath.IsLocal(m.Call) {
		return errors.New("it has no verdict, or no call")
	}
	return nil
}

// data is the disk space that the members take.
func (m *Manifest) data() (n int64) {
	for _, f := range m.Members {
		n += f.Data
	}
	return n
}

// extractMember unpacks the next member, which must be that one.
func extractMember(t *tar.Reader, m Member, folder string) (err error) {
	h, err := t.Next()
	if err != nil {
		return err
	}
	if h.Name != m.Name || h.Typeflag != tar.TypeReg || h.Size != m.Bytes {
		return fmt.Errorf("in its place is %q of %d bytes, and %d are due", h.Name, h.Size, m.Bytes)
	}
	path := filepath.Join(folder, m.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return sparse.Copy(out, t, m.Bytes)
}
