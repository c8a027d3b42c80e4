package images

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"powercut/images/cache"
)

func TestFormatArguments(t *testing.T) {
	const (
		start = "-q -F -U " + diskUUID + " -L " + diskLabel
		ext   = "hash_seed=" + diskHashSeed + ",lazy_itable_init=0,lazy_journal_init=0,nodiscard"
	)
	tests := map[string]struct {
		options []string
		want    string
	}{
		"none":        {nil, start + " -b 4096 -E " + ext},
		"block size":  {[]string{"-b", "1024"}, start + " -E " + ext + " -b 1024"},
		"joined":      {[]string{"-b2048", "-O^has_journal"}, start + " -E " + ext + " -b 2048 -O ^has_journal"},
		"plain":       {[]string{"-v", "-m", "0"}, start + " -b 4096 -E " + ext + " -v -m 0"},
		"extended":    {[]string{"-E", "stride=2,discard"}, start + " -b 4096 -E " + strings.TrimSuffix(ext, ",nodiscard") + ",stride=2,discard"},
		"lazy":        {[]string{"-E", "lazy_itable_init=1", "-E", "stride=2"}, start + " -b 4096 -E hash_seed=" + diskHashSeed + ",lazy_journal_init=0,nodiscard,lazy_itable_init=1,stride=2"},
		"own label":   {[]string{"-L", "mine"}, start + " -b 4096 -E " + ext + " -L mine"},
		"dashed data": {[]string{"-e", "-x"}, start + " -b 4096 -E " + ext + " -e -x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Format{Type: "ext4", Size: 64 << 20, Options: tt.options}.arguments()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, strings.Join(got, " ")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFormatRefuses(t *testing.T) {
	tests := map[string]struct {
		format Format
		want   string
	}{
		"type":         {Format{Type: "ntfs", Size: 64 << 20}, "one of ext2, ext3, ext4"},
		"small":        {Format{Type: "ext4", Size: 4096}, "from 1048576 to"},
		"large":        {Format{Type: "ext4", Size: 1 << 50}, "from 1048576 to"},
		"odd":          {Format{Type: "ext4", Size: 64<<20 + 512}, "a multiple of 4096"},
		"another disk": {Format{Type: "ext4", Size: 64 << 20, Options: []string{"/dev/sda"}}, "does not begin with a dash"},
		"dry run":      {Format{Type: "ext4", Size: 64 << 20, Options: []string{"-n"}}, "not allowed"},
		"undo file":    {Format{Type: "ext4", Size: 64 << 20, Options: []string{"-z", "/tmp/x"}}, "not allowed"},
		"no value":     {Format{Type: "ext4", Size: 64 << 20, Options: []string{"-O"}}, "needs a value"},
		"end of them":  {Format{Type: "ext4", Size: 64 << 20, Options: []string{"--", "/dev/sda"}}, "not allowed"},
	}
	for name, tt := range tests {
		if _, err := MakeFS(t.Context(), tt.format); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v does not say %q", name, err, tt.want)
		}
	}
}

// needMkfs skips where e2fsprogs is missing, and makes an empty cache.
func needMkfs(t *testing.T) {
	t.Helper()
	if _, err := families[0].find("ext4"); err != nil {
		t.Skip(err)
	}
	t.Setenv(cache.Variable, t.TempDir())
}

func makeDisk(t *testing.T, f Format) string {
	t.Helper()
	path, err := MakeFS(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// e2fs runs a tool of e2fsprogs on an image.
func e2fs(t *testing.T, tool string, args ...string) string {
	t.Helper()
	path := filepath.Join("/usr/sbin", tool)
	if found, err := exec.LookPath(tool); err == nil {
		path = found
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", tool, err, out)
	}
	return string(out)
}

func TestMakeFS(t *testing.T) {
	needMkfs(t)
	for _, fstype := range families[0].types {
		t.Run(fstype, func(t *testing.T) {
			f := Format{Type: fstype, Size: 64 << 20}
			path := makeDisk(t, f)
			info, err := os.Stat(path)
			if err != nil || info.Size() != f.Size || info.Mode() != 0o444 {
				t.Fatalf("image: %v, %v", info, err)
			}
			if used := info.Sys().(*syscall.Stat_t).Blocks * 512; used > f.Size/2 {
				t.Errorf("image takes %d bytes of disk: not sparse", used)
			}
			e2fs(t, "e2fsck", "-f", "-n", path)
			shown := e2fs(t, "dumpe2fs", "-h", path)
			for _, want := range []string{diskUUID, "powercut", diskHashSeed} {
				if !strings.Contains(shown, want) {
					t.Errorf("dumpe2fs does not show %s", want)
				}
			}
			if got, want := strings.Contains(shown, "has_journal"), fstype != "ext2"; got != want {
				t.Errorf("journal: %v, want %v", got, want)
			}
			if got, want := strings.Contains(shown, "extent"), fstype == "ext4"; got != want {
				t.Errorf("extents: %v, want %v", got, want)
			}
			if again := makeDisk(t, f); again != path {
				t.Errorf("made again, as %s", again)
			}
		})
	}
}

// Equal formats give equal bytes, also from an empty cache.
func TestMakeFSIsDeterministic(t *testing.T) {
	needMkfs(t)
	for _, fstype := range families[0].types {
		var sums [2][32]byte
		for i := range sums {
			t.Setenv(cache.Variable, t.TempDir())
			data, err := os.ReadFile(makeDisk(t, Format{Type: fstype, Size: 16 << 20}))
			if err != nil {
				t.Fatal(err)
			}
			sums[i] = sha256.Sum256(data)
		}
		if sums[0] != sums[1] {
			t.Errorf("two %s disks of one format differ", fstype)
		}
	}
}

// TestMakeOthers: each of the other file systems is sound by its own checker, carries
// our identifier, and is refused where it would be too small.
func TestMakeOthers(t *testing.T) {
	needMkfs(t)
	for fstype, check := range map[string][]string{
		"xfs":   {"xfs_repair", "-n", "-f"},
		"btrfs": {"btrfs", "check", "--readonly"},
		"f2fs":  {"fsck.f2fs", "--dry-run"},
		"jfs":   {"jfs_fsck", "-n", "-f"},
	} {
		t.Run(fstype, func(t *testing.T) {
			k, err := familyOf(fstype)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.find(fstype); err != nil {
				t.Skip(err)
			}
			label := "-L"
			if fstype == "f2fs" {
				label = "-l"
			}
			path := makeDisk(t, Format{Type: fstype, Size: 300 << 20, Options: []string{label, "mine"}})
			e2fs(t, check[0], append(check[1:], path)...)
			if out := e2fs(t, "blkid", "-p", path); fstype != "jfs" && !strings.Contains(out, diskUUID) || !strings.Contains(out, `LABEL="mine"`) {
				t.Errorf("blkid shows neither the identifier nor the label: %s", out)
			}
			if _, err := MakeFS(t.Context(), Format{Type: fstype, Size: k.least/4096*4096 - 4096}); err == nil || !strings.Contains(err.Error(), "it must be from") {
				t.Errorf("a disk that is too small: error %v", err)
			}
			if _, err := MakeFS(t.Context(), Format{Type: fstype, Size: 300 << 20, Options: []string{"-N"}}); err == nil {
				t.Error("a dry run was taken")
			}
		})
	}
}

func TestMakeFSOptions(t *testing.T) {
	needMkfs(t)
	base := makeDisk(t, Format{Type: "ext4", Size: 64 << 20})
	bare := makeDisk(t, Format{Type: "ext4", Size: 64 << 20, Options: []string{"-O", "^has_journal", "-b", "1024"}})
	if base == bare {
		t.Fatal("other options gave the same disk")
	}
	shown := e2fs(t, "dumpe2fs", "-h", bare)
	if strings.Contains(shown, "has_journal") {
		t.Error("journal is there although it was switched off")
	}
	if i := strings.Index(shown, "Block size:"); i < 0 || !slices.Contains(strings.Fields(shown[i:i+40]), "1024") {
		t.Errorf("block size is not 1024:\n%s", shown)
	}
}

func TestMakeFSErrors(t *testing.T) {
	needMkfs(t)
	t.Run("mkfs speaks", func(t *testing.T) {
		_, err := MakeFS(t.Context(), Format{Type: "ext4", Size: 64 << 20, Options: []string{"-O", "no_such_feature"}})
		if err == nil || !strings.Contains(err.Error(), "mkfs.ext4") || !strings.Contains(err.Error(), "no_such_feature") {
			t.Errorf("error does not quote mkfs: %v", err)
		}
	})
	t.Run("no room for a journal", func(t *testing.T) {
		_, err := MakeFS(t.Context(), Format{Type: "ext3", Size: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "journal") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("disk full", func(t *testing.T) {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Skipf("mounting a tmpfs needs root: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		t.Setenv(cache.Variable, filepath.Join(dir, "cache"))
		_, err := MakeFS(t.Context(), Format{Type: "ext4", Size: 256 << 20})
		if err == nil || !strings.Contains(err.Error(), "is full: free some space") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("no file system", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "empty")
		if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (Format{Type: "ext4"}).checkMade(path); err == nil || !strings.Contains(err.Error(), "left no file system") {
			t.Errorf("error: %v", err)
		}
		if err := (Format{Type: "ext4"}).checkMade(path + "x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error: %v", err)
		}
	})
}
