// Package buildid tells modules of one name apart: by the hash that the linker
// left in the module's file, and that the kernel shows of a module it has loaded.
package buildid

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
)

// Section is the ELF section that holds the note (ld(1), --build-id).
const Section = ".note.gnu.build-id"

// noteType is NT_GNU_BUILD_ID of elf.h.
const noteType = 3

// Parse returns the build ID of a section with one note, in hexadecimal; "" where
// there is none. A note is three words (the lengths of name and content, and the
// type), the name and the content, each filled up to four bytes (elf(5)).
func Parse(note []byte) string {
	const head = 12
	name := []byte("GNU\x00")
	if len(note) < head+len(name) {
		return ""
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(note[at:]) }
	content := note[head+len(name):]
	if word(0) != uint32(len(name)) || word(8) != noteType || !bytes.Equal(note[head:head+len(name)], name) || uint64(word(4)) > uint64(len(content)) {
		return ""
	}
	return hex.EncodeToString(content[:word(4)])
}

// Loaded returns the build ID of a module that this machine's kernel has loaded;
// "" where it has not, or does not tell (CONFIG_KALLSYMS).
func Loaded(module string) string {
	note, err := os.ReadFile(filepath.Join("/sys/module", module, "notes", Section))
	if err != nil {
		return ""
	}
	return Parse(note)
}
