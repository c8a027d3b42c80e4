package qemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// The files of a template.
const (
	manifestName = "manifest.json"
	stateName    = "device.state"
	ramName      = "ram"
)

// Limits of a template.
const (
	manifestFormat = 1
	maxManifest    = 16 << 20 // bytes
	maxState       = 64 << 20 // bytes of device state; some 0.4 MB in practice
	maxExtent      = 1 << 20  // bytes of one extent, which is one step of copying
)

// manifest says what a template's files hold, so that a damaged one is never
// run. It is written last: without it there is no template.
type manifest struct {
	Format  int      `json:"format"`
	QEMU    string   `json:"qemu"`    // version that saved it
	Machine []string `json:"machine"` // Config.identity
	State   extent   `json:"state"`   // of device.state, from 0
	Memory  int64    `json:"memory"`  // bytes of guest RAM, and of the file ram
	Extents []extent `json:"extents"` // what of ram is not zero, ascending, apart
	Sum     sum      `json:"sum"`     // of this manifest with a Sum of 0
}

// extent is a range of a file and the hash of its bytes.
type extent struct {
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	Sum    sum   `json:"sum"`
}

// sum is an xxhash64, in JSON a string of hexadecimal digits: JSON numbers do
// not hold 64 bits everywhere.
type sum uint64

// MarshalText writes 16 digits.
func (s sum) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(s)), nil }

// UnmarshalText reads them.
func (s *sum) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 16, 64)
	*s = sum(v)
	return err
}

// digest is the manifest's own hash.
func (m manifest) digest() (sum, error) {
	m.Sum = 0
	data, err := json.Marshal(m)
	return sum(xxhash.Sum64(data)), err
}

// write puts the manifest into dir, whole or not at all.
func (m manifest) write(dir string) error {
	var err error
	if m.Sum, err = m.digest(); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	path := filepath.Join(dir, manifestName)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// readManifest reads and checks the manifest of the template cfg names. Every
// failure is ErrTemplateDamaged.
func readManifest(cfg Config) (manifest, error) {
	var m manifest
	data, err := readLimited(cfg.templateFile(manifestName), maxManifest)
	if err != nil {
		return m, damaged("%w", err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, damaged("read manifest: %w", err)
	}
	if own, err := m.digest(); err != nil || own != m.Sum || m.Format != manifestFormat {
		return m, damaged("manifest does not agree with itself")
	}
	if !slices.Equal(m.Machine, cfg.identity()) || m.Memory != cfg.Memory {
		return m, damaged("it was made of another machine")
	}
	return m, m.checkExtents()
}

// checkExtents makes sure that copying stays within the memory.
func (m manifest) checkExtents() error {
	var end int64
	for _, e := range m.Extents {
		if e.Offset < end || e.Length <= 0 || e.Length > maxExtent || e.Offset > m.Memory-e.Length {
			return damaged("extent %d+%d is out of place", e.Offset, e.Length)
		}
		end = e.Offset + e.Length
	}
	return nil
}

// readState reads the device state and checks it.
func (m manifest) readState(cfg Config) ([]byte, error) {
	data, err := readLimited(cfg.templateFile(stateName), maxState)
	if err != nil {
		return nil, damaged("%w", err)
	}
	if int64(len(data)) != m.State.Length || sum(xxhash.Sum64(data)) != m.State.Sum {
		return nil, damaged("%s is not what was saved", stateName)
	}
	return data, nil
}

// damaged is an ErrTemplateDamaged with what is wrong.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrTemplateDamaged, fmt.Errorf(format, args...))
}

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errors.New("file too long: " + path)
	}
	return data, err
}
