// Package kerneltest builds small files in the formats of Linux kernels and
// modules, for tests.
package kerneltest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
)

// Place of the parts in the files built here, in bytes.
const (
	headerSize  = 64
	progSize    = 56
	sectionSize = 64
)

// Note is an ELF note.
type Note struct {
	Name string
	Type uint32
}

// PVH is the note of a kernel that can be booted directly.
func PVH() Note { return Note{"Xen", 18} }

// Bytes returns the note with a description of 8 bytes.
func (n Note) Bytes() []byte {
	name := n.Name + "\x00"
	var b bytes.Buffer
	for _, word := range []uint32{uint32(len(name)), 8, n.Type} {
		write(&b, word)
	}
	b.WriteString(name + strings.Repeat("\x00", (4-len(name)%4)%4))
	b.Write(make([]byte, 8))
	return b.Bytes()
}

// Kernel returns an ELF executable with one loaded segment of the given
// content, and one segment of notes.
func Kernel(machine elf.Machine, content []byte, notes ...Note) []byte {
	var noteData []byte
	for _, n := range notes {
		noteData = append(noteData, n.Bytes()...)
	}
	start := uint64(headerSize + 2*progSize)
	var b bytes.Buffer
	write(&b, elf.Header64{
		Ident: ident(), Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1,
		Phoff: headerSize, Ehsize: headerSize, Phentsize: progSize, Phnum: 2, Shentsize: sectionSize,
	})
	write(&b, elf.Prog64{Type: uint32(elf.PT_LOAD), Off: start, Filesz: uint64(len(content)), Memsz: uint64(len(content))})
	write(&b, elf.Prog64{Type: uint32(elf.PT_NOTE), Off: start + uint64(len(content)), Filesz: uint64(len(noteData))})
	b.Write(content)
	b.Write(noteData)
	return b.Bytes()
}

// Module returns a relocatable ELF file with a .modinfo section of the given
// "key=value" fields.
func Module(fields ...string) []byte {
	return module(section{".modinfo", elf.SHT_PROGBITS, modinfo(fields)})
}

// LinkedModule is a Module with a build ID.
func LinkedModule(id string, fields ...string) []byte {
	var note bytes.Buffer
	for _, word := range []uint32{4, uint32(len(id)), 3} { // NT_GNU_BUILD_ID
		write(&note, word)
	}
	note.WriteString("GNU\x00" + id)
	return module(section{".modinfo", elf.SHT_PROGBITS, modinfo(fields)}, section{".note.gnu.build-id", elf.SHT_NOTE, note.Bytes()})
}

func modinfo(fields []string) []byte { return []byte(strings.Join(fields, "\x00") + "\x00") }

type section struct {
	name string
	kind elf.SectionType
	data []byte
}

func module(sections ...section) []byte {
	names := "\x00"
	for _, s := range sections {
		names += s.name + "\x00"
	}
	const table = ".shstrtab"
	sections = append(sections, section{table, elf.SHT_STRTAB, []byte(names + table + "\x00")})
	var content, headers bytes.Buffer
	write(&headers, elf.Section64{})
	nameAt := uint32(1)
	for _, s := range sections {
		write(&headers, elf.Section64{Name: nameAt, Type: uint32(s.kind), Off: uint64(headerSize + content.Len()), Size: uint64(len(s.data))})
		nameAt += uint32(len(s.name)) + 1
		content.Write(s.data)
	}
	var b bytes.Buffer
	write(&b, elf.Header64{
		Ident: ident(), Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1,
		Shoff: uint64(headerSize + content.Len()), Ehsize: headerSize, Shentsize: sectionSize,
		Shnum: uint16(len(sections) + 1), Shstrndx: uint16(len(sections)),
	})
	b.Write(content.Bytes())
	b.Write(headers.Bytes())
	return b.Bytes()
}

// Program returns a static ELF executable, or a dynamic one, that does nothing.
func Program(dynamic bool) []byte {
	kind := elf.PT_LOAD
	if dynamic {
		kind = elf.PT_INTERP
	}
	var b bytes.Buffer
	write(&b, elf.Header64{
		Ident: ident(), Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: headerSize, Ehsize: headerSize, Phentsize: progSize, Phnum: 1, Shentsize: sectionSize,
	})
	write(&b, elf.Prog64{Type: uint32(kind), Off: headerSize + progSize})
	return b.Bytes()
}

// BzImage returns a bzImage with one sector of set-up code, the given release
// and the given payload, to which it adds the size word as the build does.
func BzImage(release string, payload []byte, size int) []byte {
	const gap = 0x40 // what stands in front of the payload
	payload = binary.LittleEndian.AppendUint32(bytes.Clone(payload), uint32(size))
	image := make([]byte, 4*512)
	image[0x1f1] = 3
	binary.LittleEndian.PutUint16(image[0x1fe:], 0xaa55)
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(image[0x206:], 0x020f)
	binary.LittleEndian.PutUint16(image[0x20e:], 0x300)
	binary.LittleEndian.PutUint32(image[0x248:], gap)
	binary.LittleEndian.PutUint32(image[0x24c:], uint32(len(payload)))
	copy(image[0x500:], release+" (builder@host) #1")
	image = append(image, make([]byte, gap)...)
	return append(append(image, payload...), "after the payload"...)
}

func ident() [elf.EI_NIDENT]byte {
	return [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
}

// write appends a fixed-size value; a bytes.Buffer does not fail.
func write(b *bytes.Buffer, value any) {
	if err := binary.Write(b, binary.LittleEndian, value); err != nil {
		panic(err)
	}
}
