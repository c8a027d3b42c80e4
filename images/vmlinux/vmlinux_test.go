package vmlinux

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"

	"powercut/images/internal/kerneltest"
)

const banner = "Linux version %s (%s)\x00Linux version 6.9.0-test (x@y) #1\x00"

func testKernel() []byte {
	content := append([]byte(banner), bytes.Repeat([]byte("some code \xe8\x01\x02\x00\x00\xe9\xff\xff\xff\xff"), 5000)...)
	return kerneltest.Kernel(elf.EM_X86_64, content, kerneltest.Note{Name: "Xen", Type: 6}, kerneltest.PVH())
}

func compressed(t testing.TB, data []byte, open func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func payloads(t testing.TB, kernel []byte) map[string][]byte {
	return map[string][]byte{
		"none": kernel,
		"gzip": compressed(t, kernel, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }),
		"zstd": compressed(t, kernel, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }),
		"xz": compressed(t, kernel, func(w io.Writer) (io.WriteCloser, error) {
			return xz.WriterConfig{CheckSum: xz.CRC32}.NewWriter(w)
		}),
		"lzma": compressed(t, kernel, func(w io.Writer) (io.WriteCloser, error) {
			return lzma.WriterConfig{EOSMarker: true}.NewWriter(w)
		}),
	}
}

func TestExtract(t *testing.T) {
	kernel := testKernel()
	for name, payload := range payloads(t, kernel) {
		t.Run(name, func(t *testing.T) {
			image := kerneltest.BzImage("6.9.0-test", payload, len(kernel))
			got, err := Extract(image)
			if err != nil {
				t.Fatal(err)
			}
			// An uncompressed payload keeps the size word behind the ELF file.
			if !bytes.HasPrefix(got, kernel) || len(got) > len(kernel)+4 {
				t.Errorf("got %d bytes that are not the kernel's %d", len(got), len(kernel))
			}
			if r := ImageRelease(image); r != "6.9.0-test" {
				t.Errorf("ImageRelease = %q", r)
			}
		})
	}
}

// xzTool compresses with the host's xz, or skips the test.
func xzTool(t *testing.T, data []byte, args ...string) []byte {
	t.Helper()
	tool, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("xz is not installed: the x86 filter is not compared with it")
	}
	cmd := exec.Command(tool, append([]string{"-c"}, args...)...)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// branches returns bytes that are dense in what the x86 filter looks at.
func branches(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	alphabet := []byte{0xe8, 0xe9, 0x00, 0xff, 0x01, 0xfe, 0x7f}
	data := make([]byte, n)
	for i := range data {
		if rng.IntN(3) == 0 {
			data[i] = byte(rng.Uint32())
		} else {
			data[i] = alphabet[rng.IntN(len(alphabet))]
		}
	}
	return data
}

func TestX86FilterAgainstXZ(t *testing.T) {
	for seed := range uint64(12) {
		data := branches(seed, 1+int(seed)*7001)
		packed := xzTool(t, data, "--check=crc32", "--x86", "--lzma2=dict=1MiB")
		got, err := decodeXZ(packed, 1<<20)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !bytes.Equal(got, data) {
			t.Fatalf("seed %d: content differs", seed)
		}
	}
}

func TestDecodeXZChecks(t *testing.T) {
	data := branches(1, 5000)
	for _, check := range []string{"none", "crc32", "crc64"} {
		got, err := decodeXZ(xzTool(t, data, "--check="+check), 1<<20)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("check %s: %v", check, err)
		}
	}
	for _, args := range [][]string{{"--check=sha256"}, {"--arm", "--lzma2"}, {"--delta", "--lzma2"}} {
		if _, err := decodeXZ(xzTool(t, data, args...), 1<<20); err == nil || !strings.Contains(err.Error(), "not supported") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := decodeXZ(xzTool(t, data), 4999); err == nil {
		t.Error("content over the limit was accepted")
	}
}

// Each damaged byte of an xz stream is noticed, or does not matter.
func TestDecodeXZDamage(t *testing.T) {
	data := branches(2, 400)
	packed := compressed(t, data, func(w io.Writer) (io.WriteCloser, error) {
		return xz.WriterConfig{DictCap: 4096}.NewWriter(w)
	})
	for i := range packed {
		bad := bytes.Clone(packed)
		bad[i] ^= 0x10
		if got, err := decodeXZ(bad, 1<<20); err == nil && !bytes.Equal(got, data) {
			t.Errorf("damage at byte %d passed", i)
		}
	}
}

func TestExtractRefuses(t *testing.T) {
	kernel := testKernel()
	gz := payloads(t, kernel)["gzip"]
	good := kerneltest.BzImage("6.9.0-test", gz, len(kernel))
	edit := func(change func([]byte) []byte) []byte { return change(bytes.Clone(good)) }
	arm := kerneltest.Kernel(elf.EM_AARCH64, []byte("x"))
	tests := map[string]struct {
		image []byte
		want  string
	}{
		"empty":        {nil, "neither"},
		"text":         {bytes.Repeat([]byte("not a kernel\n"), 100), "neither"},
		"no boot flag": {edit(func(b []byte) []byte { b[0x1fe] = 0; return b }), "neither"},
		"old protocol": {edit(func(b []byte) []byte { b[0x206], b[0x207] = 7, 2; return b }), "older than 2.08"},
		"cut short":    {good[:len(good)/2], "cut short"},
		"cut payload": {edit(func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(gz)/2))
			return b
		}), "gzip"},
		"other size":    {kerneltest.BzImage("x", gz, len(kernel)+1), "other than"},
		"huge size":     {kerneltest.BzImage("x", gz, 1<<31), "over"},
		"huge offset":   {edit(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[0x248:], 0xffffffff); return b }), "cut short"},
		"no payload":    {edit(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[0x24c:], 0); return b }), "payload has 0 bytes"},
		"unknown magic": {kerneltest.BzImage("x", []byte("JUNKJUNKJUNK"), 1), "no known compression"},
		"lz4":           {kerneltest.BzImage("x", []byte("\x02\x21\x4c\x18xxxxxxx"), 1), "lz4, is not supported"},
		"not ELF":       {kerneltest.BzImage("x", compressed(t, []byte("hello, this is no ELF file"), func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }), 1), "neither"},
		"other machine": {kerneltest.BzImage("x", arm, len(arm)), "EM_AARCH64"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Extract(tt.image)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v does not say %q", err, tt.want)
			}
			if name != "lz4" && !errors.Is(err, ErrNotKernel) {
				t.Errorf("error %v is not ErrNotKernel", err)
			}
		})
	}
}

func TestInspect(t *testing.T) {
	config := compressed(t, []byte("CONFIG_PVH=y\n"), func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
	embedded := append(append([]byte(banner+"IKCFG_ST"), config...), "IKCFG_ED"...)
	xen := kerneltest.Note{Name: "Xen", Type: 6}
	tests := map[string]struct {
		file []byte
		want Info
		err  string
	}{
		"pvh":           {testKernel(), Info{Release: "6.9.0-test", PVH: true}, ""},
		"no pvh":        {kerneltest.Kernel(elf.EM_X86_64, []byte(banner), xen), Info{Release: "6.9.0-test"}, ""},
		"other owner":   {kerneltest.Kernel(elf.EM_X86_64, []byte(banner), kerneltest.Note{Name: "GNU", Type: 18}), Info{Release: "6.9.0-test"}, ""},
		"no banner":     {kerneltest.Kernel(elf.EM_X86_64, []byte("x"), kerneltest.PVH()), Info{PVH: true}, ""},
		"configuration": {kerneltest.Kernel(elf.EM_X86_64, embedded, kerneltest.PVH()), Info{Release: "6.9.0-test", PVH: true, Config: []byte("CONFIG_PVH=y\n")}, ""},
		"module":        {kerneltest.Module("a=b"), Info{}, "not an executable"},
		"arm":           {kerneltest.Kernel(elf.EM_ARM, []byte(banner)), Info{}, "EM_ARM"},
		"junk":          {[]byte("junk"), Info{}, "neither"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vmlinux")
			if err := os.WriteFile(path, tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Inspect(path)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !errors.Is(err, ErrNotKernel) {
					t.Fatalf("error %v does not say %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Release != tt.want.Release || got.PVH != tt.want.PVH || !bytes.Equal(got.Config, tt.want.Config) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// FuzzExtract looks for images that make the reader panic or hang.
func FuzzExtract(f *testing.F) {
	kernel := kerneltest.Kernel(elf.EM_X86_64, []byte(banner), kerneltest.PVH())
	for _, payload := range payloads(f, kernel) {
		f.Add(kerneltest.BzImage("6.9.0-test", payload, len(kernel)))
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		if payload, err := payloadOf(image); err == nil && binary.LittleEndian.Uint32(payload[len(payload)-sizeWord:]) > 16<<20 {
			t.Skip("decompressing that much takes seconds, and proves nothing more")
		}
		kernel, err := Extract(image)
		if err == nil && !IsELF(kernel) {
			t.Error("extracted something that is no ELF file")
		}
		ImageRelease(image)
		inspect(bytes.NewReader(image)) //nolint:errcheck // must only not panic
	})
}
