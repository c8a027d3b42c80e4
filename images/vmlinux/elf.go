package vmlinux

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"powercut/images/regular"
)

const (
	// notePVH is XEN_ELFNOTE_PHYS32_ENTRY, the address at which a PVH loader
	// enters the kernel.
	notePVH = 18
	// maxNotes bounds one note segment, in bytes.
	maxNotes = 1 << 20
	// maxConfig bounds an embedded configuration, in bytes.
	maxConfig = 4 << 20
)

// Info is what an ELF kernel says about itself.
type Info struct {
	Release string // "6.1.0-57-amd64"; "" if it could not be found
	PVH     bool   // has the entry point that direct boot needs (CONFIG_PVH)
	Config  []byte // its configuration, if built with CONFIG_IKCONFIG; else nil
}

// Inspect reads the ELF kernel at path. A file that is not a 64-bit x86 kernel
// gives an error that wraps ErrNotKernel.
func Inspect(path string) (Info, error) {
	f, err := regular.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := inspect(f)
	if err != nil {
		return Info{}, fmt.Errorf("inspect kernel %s: %w", path, err)
	}
	return info, nil
}

func inspect(r io.ReaderAt) (Info, error) {
	if err := checkELF(r); err != nil {
		return Info{}, err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return Info{}, fmt.Errorf("%w: %w", err, ErrNotKernel)
	}
	pvh, err := hasPVH(f)
	if err != nil {
		return Info{}, err
	}
	info := Info{PVH: pvh}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz > MaxKernel {
			continue
		}
		// ReadAll allocates as it reads: a damaged header may name a segment
		// far larger than the file.
		data, err := io.ReadAll(p.Open())
		if err != nil {
			return Info{}, fmt.Errorf("read segment at %#x: %w: %w", p.Off, err, ErrNotKernel)
		}
		if info.Release == "" {
			info.Release = releaseIn(data)
		}
		if info.Config == nil {
			info.Config = configIn(data)
		}
	}
	return info, nil
}

// checkELF accepts a 64-bit x86 executable only.
func checkELF(r io.ReaderAt) error {
	f, err := elf.NewFile(r)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrNotKernel)
	}
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("it is an ELF file of class %v for %v: %w", f.Class, f.Machine, ErrNotKernel)
	}
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return fmt.Errorf("it is an ELF file of type %v, not an executable: %w", f.Type, ErrNotKernel)
	}
	return nil
}

func hasPVH(f *elf.File) (bool, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		data := make([]byte, p.Filesz)
		if _, err := p.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("read notes: %w: %w", err, ErrNotKernel)
		}
		if hasNote(data, "Xen", notePVH) {
			return true, nil
		}
	}
	return false, nil
}

// hasNote looks through ELF notes: name size, description size, type, then the
// two, each padded to 4 bytes (elf(5)).
func hasNote(data []byte, name string, kind uint32) bool {
	pad := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(data) >= 12 {
		nameSize := binary.LittleEndian.Uint32(data)
		descSize := binary.LittleEndian.Uint32(data[4:])
		noteKind := binary.LittleEndian.Uint32(data[8:])
		data = data[12:]
		if pad(nameSize)+pad(descSize) > uint64(len(data)) {
			return false
		}
		if noteKind == kind && string(bytes.TrimRight(data[:nameSize], "\x00")) == name {
			return true
		}
		data = data[pad(nameSize)+pad(descSize):]
	}
	return false
}

// releaseIn finds the banner "Linux version RELEASE (…". The same words also
// stand in front of a format directive, which is passed over.
func releaseIn(data []byte) string {
	banner := []byte("Linux version ")
	for {
		at := bytes.Index(data, banner)
		if at < 0 {
			return ""
		}
		data = data[at+len(banner):]
		end := bytes.IndexByte(data[:min(len(data), 128)], ' ')
		if end > 0 && data[0] >= '0' && data[0] <= '9' {
			return string(data[:end])
		}
	}
}

// configIn finds a configuration embedded by CONFIG_IKCONFIG: gzip data between
// two marks.
func configIn(data []byte) []byte {
	at := bytes.Index(data, []byte("IKCFG_ST\x1f\x8b"))
	if at < 0 {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data[at+len("IKCFG_ST"):]))
	if err != nil {
		return nil
	}
	r.Multistream(false)
	text, err := io.ReadAll(io.LimitReader(r, maxConfig))
	if err != nil {
		return nil
	}
	return text
}
