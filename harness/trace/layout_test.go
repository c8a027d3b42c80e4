package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"powercut/guest/workload"
	imagesof "powercut/images"
	"powercut/images/cache"
)

// tool finds a program of e2fsprogs, which may be where only root's PATH leads.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, n := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	t.Skipf("%s is missing: install e2fsprogs", name)
	return ""
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(tool(t, name), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, stderr.String())
	}
	return string(out)
}

// format makes an image with mkfs.ext2, whose arguments ask for the rest.
func format(t *testing.T, size int64, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	output(t, "mke2fs", append(append([]string{"-q", "-F"}, args...), path)...)
	return path
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// images are file systems as mke2fs makes them.
var images = []struct {
	name    string
	size    int64
	block   int64
	args    []string
	journal bool
}{
	{"ext3 1024", 64 << 20, 1024, []string{"-t", "ext3", "-b", "1024"}, true},
	{"ext3 4096", 300 << 20, 4096, []string{"-t", "ext3", "-b", "4096"}, true},
	{"ext3 triple indirect", 200 << 20, 1024, []string{"-t", "ext3", "-b", "1024", "-J", "size=70"}, true},
	{"ext4 1024", 64 << 20, 1024, []string{"-t", "ext4", "-b", "1024"}, true},
	{"ext4 4096", 300 << 20, 4096, []string{"-t", "ext4", "-b", "4096"}, true},
	{"ext4 deep tree", 200 << 20, 1024, []string{"-t", "ext4", "-b", "1024", "-O", "^flex_bg", "-J", "size=90"}, true},
	{"ext4 32 bit", 64 << 20, 4096, []string{"-t", "ext4", "-b", "4096", "-O", "^64bit,^metadata_csum"}, true},
	{"ext4 meta_bg", 64 << 20, 4096, []string{"-t", "ext4", "-b", "4096", "-O", "meta_bg,^resize_inode"}, true},
	{"ext4 old inodes", 64 << 20, 4096, []string{"-t", "ext4", "-b", "4096", "-I", "128"}, true},
	{"ext2", 64 << 20, 1024, []string{"-t", "ext2", "-b", "1024"}, false},
	{"ext2 revision 0", 64 << 20, 1024, []string{"-t", "ext2", "-b", "1024", "-r", "0", "-O", "none"}, false},
	{"ext4 without journal", 64 << 20, 4096, []string{"-t", "ext4", "-b", "4096", "-O", "^has_journal"}, false},
}

// TestJournalPlace compares the journal's place with what debugfs says of inode 8.
func TestJournalPlace(t *testing.T) {
	for _, c := range images {
		t.Run(c.name, func(t *testing.T) {
			path := format(t, c.size, c.args...)
			lay, err := readLayout(open(t, path), 0)
			if err != nil {
				t.Fatal(err)
			}
			if lay.blockSize != c.block {
				t.Errorf("block size %d, want %d", lay.blockSize, c.block)
			}
			if !c.journal {
				if len(lay.journal) > 0 {
					t.Errorf("journal at %v", lay.journal)
				}
				return
			}
			want := debugfsBlocks(t, path)
			if got := blocksOf(lay.journal, c.block); !slices.Equal(got, want) {
				t.Errorf("journal at %v: %d blocks, debugfs says %d: %v", lay.journal, len(got), len(want), want)
			}
		})
	}
}

// TestExternalJournalPlace: all of the second disk is the journal, and what is no journal's
// disk is refused.
func TestExternalJournalPlace(t *testing.T) {
	t.Setenv(cache.Variable, t.TempDir())
	const fs, own = 64 << 20, 8 << 20
	for block, logFrom := range map[string]int64{"1024": 3, "4096": 2} {
		path, err := imagesof.MakeFS(t.Context(), imagesof.Format{Type: "ext4", Size: fs, Journal: own, Options: []string{"-b", block}})
		if err != nil {
			t.Skip(err)
		}
		lay, err := readLayout(open(t, path), fs)
		if err != nil {
			t.Fatal(err)
		}
		if want := []workload.Extent{{Offset: fs, Length: own}}; !slices.Equal(lay.journal, want) || lay.logFrom != logFrom {
			t.Errorf("blocks of %s: journal at %v, its log from block %d; want %v and %d", block, lay.journal, lay.logFrom, want, logFrom)
		}
		if _, err := readLayout(open(t, path), fs/2); err == nil {
			t.Error("the middle of the file system is taken for the journal's disk")
		}
	}
}

// TestJournalFromInode hides the superblock's copy of the journal's map.
func TestJournalFromInode(t *testing.T) {
	for _, i := range []int{0, 2, 4, 5} {
		c := images[i]
		t.Run(c.name, func(t *testing.T) {
			path := format(t, c.size, c.args...)
			file := open(t, path)
			want, err := readLayout(file, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, err := readLayout(patched{file, superOffset + 0xFD, 0}, 0)
			if err != nil || !slices.Equal(got.journal, want.journal) {
				t.Errorf("journal at %v, want %v: %v", got, want.journal, err)
			}
		})
	}
}

// patched is an image with another byte in one place.
type patched struct {
	io.ReaderAt
	at    int64
	value byte
}

func (p patched) ReadAt(buf []byte, off int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(buf, off)
	if p.at >= off && p.at < off+int64(n) {
		buf[p.at-off] = p.value
	}
	return n, err
}

var (
	mapEntry = regexp.MustCompile(`\((\w+)(?:-\d+)?\):(\d+)(?:-(\d+))?`)
	areaLine = regexp.MustCompile(`(Block bitmap|Inode bitmap|Inode table|Group descriptors) at (\d+)(?:-(\d+))?`)
)

// debugfsBlocks lists the journal's blocks in order, as debugfs shows them.
func debugfsBlocks(t *testing.T, path string) []int64 {
	stat := output(t, "debugfs", "-R", "stat <8>", path)
	var list []int64
	for _, m := range mapEntry.FindAllStringSubmatch(stat[strings.LastIndex(stat, "\nBLOCKS:")+strings.LastIndex(stat, "\nEXTENTS:")+1:], -1) {
		if _, err := strconv.Atoi(m[1]); err != nil {
			continue // (IND), (ETB0): a block of the map itself
		}
		first, _ := strconv.ParseInt(m[2], 10, 64)
		last := first
		if m[3] != "" {
			last, _ = strconv.ParseInt(m[3], 10, 64)
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	return list
}

func blocksOf(extents []workload.Extent, size int64) []int64 {
	var list []int64
	for _, e := range extents {
		for at := e.Offset; at < e.End(); at += size {
			list = append(list, at/size)
		}
	}
	return list
}

// TestAreas compares the tables with what dumpe2fs says.
func TestAreas(t *testing.T) {
	for _, c := range images {
		if strings.Contains(c.name, "meta_bg") {
			continue // only the superblock is known there
		}
		t.Run(c.name, func(t *testing.T) {
			path := format(t, c.size, c.args...)
			lay, err := readLayout(open(t, path), 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(lay.areas); i++ {
				if lay.areas[i-1].End() > lay.areas[i].Offset {
					t.Errorf("areas overlap: %v, %v", lay.areas[i-1], lay.areas[i])
				}
			}
			seen := 0
			for line := range strings.Lines(output(t, "dumpe2fs", path)) {
				if strings.Contains(line, "Backup superblock") {
					continue
				}
				for _, m := range areaLine.FindAllStringSubmatch(line, -1) {
					seen++
					compareArea(t, lay, c.block, m)
				}
			}
			if seen != len(lay.areas)-1 {
				t.Errorf("dumpe2fs names %d tables, the layout has %d", seen, len(lay.areas)-1)
			}
		})
	}
}

func compareArea(t *testing.T, lay *layout, block int64, m []string) {
	first, _ := strconv.ParseInt(m[2], 10, 64)
	last := first
	if m[3] != "" {
		last, _ = strconv.ParseInt(m[3], 10, 64)
	}
	name := strings.ToLower(m[1])
	for _, n := range []int64{first, last} {
		if got := lay.areasOf(n*block, block); got != name || !lay.fixed(n*block+block-1) {
			t.Errorf("block %d: %q, dumpe2fs says %q", n, got, name)
		}
	}
}

// TestLayoutSurvives reads images with one byte changed: any error is well, a
// panic or a journal that leaves the drive is not.
func TestLayoutSurvives(t *testing.T) {
	paths := []string{
		format(t, 200<<20, "-t", "ext4", "-b", "1024", "-O", "^flex_bg", "-J", "size=90"),
		format(t, 64<<20, "-t", "ext3", "-b", "1024"),
	}
	files := []*os.File{open(t, paths[0]), open(t, paths[1])}
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.SampledFrom(files).Draw(t, "file")
		at := rapid.SampledFrom([]int{0, 4, 5, 20, 24, 32, 40, 56, 76, 88, 92, 96, 224, 253, 254, 268, 269, 270, 272, 274, 280, 284, 300, 328, 332, 333, 336}).Draw(t, "at")
		lay, err := readLayout(patched{file, superOffset + int64(at), rapid.Byte().Draw(t, "value")}, 0)
		if err != nil {
			return
		}
		for _, e := range lay.journal {
			if e.Offset < 0 || e.Length <= 0 {
				t.Fatalf("journal at %v", lay.journal)
			}
		}
	})
}

// TestHighBlocks has extents beyond 2³² blocks, which no test image is large
// enough for.
func TestHighBlocks(t *testing.T) {
	f := fileMap{s: &super{blocks: 1 << 40, blockSize: 4096}, left: 7}
	entry := []byte{0, 0, 0, 0, 7, 0, 2, 0, 5, 0, 0, 0}
	want := []workload.Extent{{Offset: (2<<32 + 5) * 4096, Length: 7 * 4096}}
	if err := f.extentEntry(entry, 0); err != nil || !slices.Equal(f.extents, want) {
		t.Errorf("extents %v, %v; want %v", f.extents, err, want)
	}
}

// TestClassesOnImage writes to the parts of a real file system: its journal, its
// tables and its data.
func TestClassesOnImage(t *testing.T) {
	path := format(t, 64<<20, "-t", "ext3", "-b", "1024")
	base := open(t, path)
	lay, err := readLayout(base, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := newStory(t, overwrites())
	first := lay.journal[0]
	s.tell("ack begin")
	s.write(first.Offset+1024, descriptor(1)[:1024], false, false)
	s.write(first.Offset+2048, bytes.Repeat([]byte{7}, 2048), false, false) // no magic: told by its place
	s.write(first.End()-1024, bytes.Repeat([]byte{7}, 2048), false, false)  // merged with an indirect block
	s.write(lay.areas[2].Offset, s.file[:1024], false, false)               // a table that looks like data
	s.write(0, bytes.Repeat([]byte{7}, 4096), false, false)
	s.write(9<<20, journalBlock(blockCommit)[:1024], false, false) // a magic out of place
	want := []string{
		"journal descriptor", "journal 2 in log", "journal 1 in log",
		"metadata " + lay.areas[2].name, "metadata superblock, group descriptors", "metadata ",
	}
	in := s.input()
	in.Base = base
	tr := readInput(t, in)
	var got []string
	for _, r := range tr.Requests {
		got = append(got, fmt.Sprint(r.Class, " ", r.Detail))
	}
	if !slices.Equal(got, want) {
		t.Errorf("classes %q, want %q", got, want)
	}
	if !slices.Equal(tr.Journal, lay.journal) || tr.BlockSize != 1024 {
		t.Errorf("trace has the journal at %v, blocks of %d", tr.Journal, tr.BlockSize)
	}
}

// realJournal has debugfs write two transactions into an image's journal: three
// copies, and a revoke. It returns the journal's first blocks and where they lie.
func realJournal(t *testing.T, args ...string) (string, *layout) {
	t.Helper()
	path := format(t, 64<<20, args...)
	lay, err := readLayout(open(t, path), 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	blocks, script := filepath.Join(dir, "blocks"), filepath.Join(dir, "script")
	err = errors.Join(
		os.WriteFile(blocks, bytes.Repeat([]byte("copy"), int(3*lay.blockSize/4)), 0o600),
		os.WriteFile(script, []byte("jo\njw -b 9000,9001,9002 "+blocks+"\njw -r 9003\njc\n"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	output(t, "debugfs", "-w", "-f", script, path)
	return path, lay
}

// TestRealJournal feeds the blocks of a journal that debugfs wrote, with its
// place known and unknown, in one request and block by block.
func TestRealJournal(t *testing.T) {
	for name, args := range map[string][]string{
		"ext3 1024":    {"-t", "ext3", "-b", "1024"},
		"ext3 4096":    {"-t", "ext3", "-b", "4096"},
		"ext4 64 bit":  {"-t", "ext4", "-b", "4096"},
		"ext4 32 bit":  {"-t", "ext4", "-b", "1024", "-O", "^64bit,^metadata_csum"},
		"ext4 no csum": {"-t", "ext4", "-b", "1024", "-O", "64bit,^metadata_csum"},
	} {
		t.Run(name, func(t *testing.T) {
			path, lay := realJournal(t, args...)
			file := open(t, path)
			first, bs := lay.journal[0].Offset, lay.blockSize
			blocks := make([]byte, 8*bs)
			if _, err := file.ReadAt(blocks, first); err != nil {
				t.Fatal(err)
			}
			want := "journal superblock, descriptor+3, commit, revoke, commit"
			for place, base := range map[string]*os.File{"known": file, "unknown": nil} {
				whole, single := newStory(t, overwrites()), newStory(t, overwrites())
				whole.write(first, blocks, false, false)
				for at := int64(0); at < 6; at++ {
					single.write(first+at*bs, blocks[at*bs:][:bs], false, false)
				}
				single.write(first+2*bs, bytes.Repeat([]byte{7}, 512), false, false) // after the commit
				if got := details(t, whole, base); !slices.Equal(got, []string{"journal " + want}) {
					t.Errorf("%s, one request: %q", place, got)
				}
				last := "metadata "
				if base != nil {
					last = "journal 1 in log"
				}
				singly := []string{
					"journal journal superblock", "journal descriptor",
					"journal 1 in log", "journal 1 in log", "journal 1 in log", "journal commit", last,
				}
				if got := details(t, single, base); !slices.Equal(got, singly) {
					t.Errorf("%s, block by block: %q, want %q", place, got, singly)
				}
				checkTransactions(t, readInput(t, single.input()).Requests)
			}
		})
	}
}

// checkTransactions wants descriptor, copies and commit to be of one transaction, and
// neither the superblock before them nor what comes after.
func checkTransactions(t *testing.T, reqs []Request) {
	t.Helper()
	var got []uint32
	for _, r := range reqs {
		got = append(got, r.Transaction)
	}
	n := got[1]
	if want := []uint32{0, n, n, n, n, n, 0}; n == 0 || !slices.Equal(got, want) {
		t.Errorf("transactions %d, want %d", got, want)
	}
}

func details(t *testing.T, s *story, base *os.File) []string {
	t.Helper()
	in := s.input()
	if base != nil {
		in.Base = base
	}
	var list []string
	for _, r := range readInput(t, in).Requests {
		list = append(list, string(r.Class)+" "+r.Detail)
	}
	return list
}
