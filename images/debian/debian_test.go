package debian

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

func TestParseList(t *testing.T) {
	tests := map[string]struct {
		text string
		want []Source
	}{
		"empty":   {"", nil},
		"comment": {"# deb http://a/debian bookworm main\n", nil},
		"source":  {"deb-src http://a/debian bookworm main\n", nil},
		"plain": {"deb http://a/debian bookworm main contrib # why\n", []Source{
			{URIs: []string{"http://a/debian"}, Suites: []string{"bookworm"}, Components: []string{"main", "contrib"}},
		}},
		"tabs": {"deb\thttp://a/debian\tbookworm\tmain\n", []Source{
			{URIs: []string{"http://a/debian"}, Suites: []string{"bookworm"}, Components: []string{"main"}},
		}},
		"options": {"deb [ arch=amd64 signed-by=" + keyring + " ] http://a/debian bookworm main\n", []Source{
			{URIs: []string{"http://a/debian"}, Suites: []string{"bookworm"}, Components: []string{"main"}, SignedBy: keyring},
		}},
		"tight options": {"deb [signed-by=/k.gpg]http://a/x bookworm main\n", []Source{
			{URIs: []string{"http://a/x"}, Suites: []string{"bookworm"}, Components: []string{"main"}, SignedBy: "/k.gpg"},
		}},
		"flat archive":     {"deb http://a/ ./\n", []Source{{URIs: []string{"http://a/"}, Suites: []string{"./"}, Components: []string{}}}},
		"too short":        {"deb http://a/debian\ndeb\n", nil},
		"open bracket":     {"deb [arch=amd64 http://a/debian bookworm main\n", nil},
		"no final newline": {"deb http://a/debian sid main", []Source{{URIs: []string{"http://a/debian"}, Suites: []string{"sid"}, Components: []string{"main"}}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseList(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseDeb822(t *testing.T) {
	tests := map[string]struct {
		text string
		want []Source
	}{
		"empty": {"", nil},
		"full": {
			"Types: deb\n# a comment in between\nURIs: http://a/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: " + keyring + "\n",
			[]Source{{URIs: []string{"http://a/debian"}, Suites: []string{"bookworm", "bookworm-updates"}, Components: []string{"main"}, SignedBy: keyring}},
		},
		"two stanzas, any case": {
			"types: deb deb-src\nuris: http://a/debian\nsuites: sid\ncomponents: main\n\n\nTYPES: deb\nURIS: http://b/x\nSUITES: sid\n",
			[]Source{
				{URIs: []string{"http://a/debian"}, Suites: []string{"sid"}, Components: []string{"main"}},
				{URIs: []string{"http://b/x"}, Suites: []string{"sid"}, Components: []string{}},
			},
		},
		"continued": {
			"Types: deb\nURIs:\n http://a/debian\n http://b/debian\nSuites: sid\nComponents: main\n",
			[]Source{{URIs: []string{"http://a/debian", "http://b/debian"}, Suites: []string{"sid"}, Components: []string{"main"}}},
		},
		"key inside": {
			"Types: deb\nURIs: http://a/x\nSuites: stable\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEabc\n -----END PGP PUBLIC KEY BLOCK-----\n",
			[]Source{{URIs: []string{"http://a/x"}, Suites: []string{"stable"}, Components: []string{"main"}, Embedded: true}},
		},
		"disabled":     {"Types: deb\nURIs: http://a/debian\nSuites: sid\nComponents: main\nEnabled: No\n", nil},
		"sources only": {"Types: deb-src\nURIs: http://a/debian\nSuites: sid\nComponents: main\n", nil},
		"no address":   {"Types: deb\nSuites: sid\nComponents: main\n", nil},
		"stray indent": {" lost\n", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseDeb822(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSourcesReadsBothFormats(t *testing.T) {
	etc := t.TempDir()
	for name, text := range map[string]string{
		"sources.list":                  "deb http://a/debian bookworm main\n",
		"sources.list.d/b.list":         "deb http://b/debian bookworm main\n",
		"sources.list.d/c.sources":      "Types: deb\nURIs: http://c/debian\nSuites: bookworm\nComponents: main\n",
		"sources.list.d/d.list.save":    "deb http://d/debian bookworm main\n",
		"sources.list.d/e.sources.dead": "Types: deb\nURIs: http://e/debian\nSuites: bookworm\n",
	} {
		path := filepath.Join(etc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := Sources(etc)
	if err != nil {
		t.Fatal(err)
	}
	var uris []string
	for _, s := range sources {
		uris = append(uris, s.URIs...)
	}
	if d := cmp.Diff([]string{"http://a/debian", "http://b/debian", "http://c/debian"}, uris); d != "" {
		t.Error(d)
	}
	if none, err := Sources(t.TempDir()); err != nil || len(none) != 0 {
		t.Errorf("without any file: %v, %v", none, err)
	}
}

func TestFindMirror(t *testing.T) {
	entry := func(uri, suites, components, key string) Source {
		return Source{URIs: []string{uri}, Suites: strings.Fields(suites), Components: strings.Fields(components), SignedBy: key}
	}
	main := entry("http://m/debian", "bookworm bookworm-updates", "main", keyring)
	sec := entry("http://m/debian-security", "bookworm-security", "main", keyring)
	vendor := entry("https://vendor/apt", "bookworm", "main", "/etc/apt/keyrings/vendor.gpg")
	tests := map[string]struct {
		sources []Source
		want    Mirror
	}{
		"usual":           {[]Source{main, sec}, Mirror{"http://m/debian", "http://m/debian-security"}},
		"no security":     {[]Source{main}, Mirror{Main: "http://m/debian"}},
		"updates alone":   {[]Source{entry("http://u/debian", "bookworm-updates", "main", keyring), main}, Mirror{Main: "http://m/debian"}},
		"vendor first":    {[]Source{vendor, main, sec}, Mirror{"http://m/debian", "http://m/debian-security"}},
		"vendor and old":  {[]Source{vendor, entry("http://m/mirror", "bookworm", "main", "")}, Mirror{Main: "http://m/mirror"}},
		"by address":      {[]Source{entry("http://x/apt", "stable", "main", ""), entry("http://x/debian", "stable", "main", "")}, Mirror{Main: "http://x/debian"}},
		"old security":    {[]Source{main, entry("http://s/", "buster/updates", "main", "")}, Mirror{"http://m/debian", "http://s/"}},
		"no main part":    {[]Source{entry("http://x/debian", "bookworm", "stable", keyring), main}, Mirror{Main: "http://m/debian"}},
		"disc beside it":  {[]Source{entry("cdrom:[Debian]/", "bookworm", "main", ""), main}, Mirror{Main: "http://m/debian"}},
		"list of mirrors": {[]Source{entry("mirror+file:/etc/apt/mirrors/debian.list", "bookworm", "main", "")}, Mirror{Main: "mirror+file:/etc/apt/mirrors/debian.list"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := FindMirror(tt.sources)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
	for name, sources := range map[string][]Source{
		"none":         nil,
		"other system": {entry("http://x/ubuntu", "noble", "main", "")},
		"disc only":    {entry("cdrom:[Debian]/", "bookworm", "main", "")},
	} {
		if got, err := FindMirror(sources); !errors.Is(err, ErrNotDebian) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestKernelNames(t *testing.T) {
	show := func(dep string) string {
		return "Package: linux-image-amd64\nVersion: 1\nDepends: " + dep + "\nSuggests: linux-doc\n"
	}
	tests := []struct{ version, show, want string }{
		{"6.1", show("linux-image-6.1.0-57-amd64 (= 6.1.192-3)"), "linux-image-6.1.0-57-amd64"},
		{"6.12", show("linux-image-6.12.118+deb13-amd64 (= 6.12.118-1)"), "linux-image-6.12.118+deb13-amd64"},
		{"6.12", show("foo | bar, linux-image-6.12.1-2-amd64"), "linux-image-6.12.1-2-amd64"},
		{"6.1", show("linux-image-6.12.118+deb13-amd64"), ""},
		{"6.1", show("linux-image-6.1-amd64"), ""},
		{"6.1", "", ""},
	}
	for _, tt := range tests {
		if got := kernelIn(tt.show, tt.version); got != tt.want {
			t.Errorf("kernelIn(%q, %q) = %q, want %q", tt.show, tt.version, got, tt.want)
		}
	}
}

func TestNewest(t *testing.T) {
	names := []string{
		"linux-image-6.1.0-9-amd64", "linux-image-6.1.0-57-amd64", "linux-image-6.1.0-10-amd64",
		"linux-image-6.1.0-58-rt-amd64", "linux-image-6.1.0-58-cloud-amd64", "linux-image-6.1.0-58-amd64-dbg",
		"linux-image-6.1.0-58-amd64-unsigned", "linux-image-6.1-amd64", "linux-image-6.12.1-amd64",
		"linux-image-6.12.95+deb13-amd64", "linux-image-6.12.118+deb13-amd64",
	}
	for version, want := range map[string]string{
		"6.1": "linux-image-6.1.0-57-amd64", "6.12": "linux-image-6.12.118+deb13-amd64", "5.10": "",
	} {
		if got := newest(slices.Clone(names), version); got != want {
			t.Errorf("newest of %s = %q, want %q", version, got, want)
		}
	}
}

func TestCleanName(t *testing.T) {
	for name, want := range map[string]string{
		"./boot/vmlinuz":                "boot/vmlinuz",
		"./usr/lib/modules/6.12/x.ko":   "lib/modules/6.12/x.ko",
		"lib/modules/6.1/x.ko":          "lib/modules/6.1/x.ko",
		"../../etc/passwd":              "etc/passwd",
		"./usr/lib/../../../etc/shadow": "etc/shadow",
	} {
		if got := cleanName(name); got != want {
			t.Errorf("cleanName(%q) = %q, want %q", name, got, want)
		}
	}
}

// writeTree makes a package folder for dpkg-deb.
func writeTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"DEBIAN/control":              "Package: example\nVersion: 1.2-3\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: example\n",
		"usr/lib/modules/6.9/k/a.ko":  "module a",
		"boot/vmlinuz-6.9":            "kernel",
		"usr/share/doc/example/notes": strings.Repeat("much text\n", 100_000),
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWalkRealPackage(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	deb := filepath.Join(t.TempDir(), "example.deb")
	if out, err := exec.Command("dpkg-deb", "--build", "--root-owner-group", writeTree(t), deb).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if v, err := Field(t.Context(), deb, "Version"); err != nil || v != "1.2-3" {
		t.Errorf("version %q, %v", v, err)
	}
	got := map[string]string{}
	err := Walk(t.Context(), deb, func(name string, _ int64, r io.Reader) error {
		if strings.Contains(name, "doc/") {
			return nil // not read: must be skipped
		}
		text, err := io.ReadAll(r)
		got[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"boot/vmlinuz-6.9": "kernel", "lib/modules/6.9/k/a.ko": "module a"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	broken := errors.New("broken")
	err = Walk(t.Context(), deb, func(string, int64, io.Reader) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("error of the reader: %v", err)
	}
	if err := os.Truncate(deb, 300); err != nil {
		t.Fatal(err)
	}
	err = Walk(t.Context(), deb, func(string, int64, io.Reader) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "dpkg-deb") {
		t.Errorf("cut package: %v", err)
	}
}

func TestWalkTarRefusesHugeFiles(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: maxFile + 1}); err != nil {
		t.Fatal(err)
	}
	err := walkTar(&b, func(string, int64, io.Reader) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "over") {
		t.Errorf("error: %v", err)
	}
}

// The private state names nothing of the machine but its mirror.
func TestStateIsPrivate(t *testing.T) {
	a := &Apt{dir: t.TempDir(), suite: "bookworm"}
	if err := a.write(Mirror{Main: "http://m/debian", Security: "http://s"}, keyring); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(a.dir, "sources.list"))
	if err != nil {
		t.Fatal(err)
	}
	want := "deb [arch=amd64 signed-by=" + keyring + "] http://m/debian bookworm main\n" +
		"deb [arch=amd64 signed-by=" + keyring + "] http://s bookworm-security main\n"
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Error(d)
	}
	if _, err := exec.LookPath("apt-config"); err != nil {
		t.Skip("apt is not installed: its view of the configuration is not looked at")
	}
	dump, err := a.command(0, "apt-config", "dump").Output(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(dump) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); {
		case strings.HasPrefix(name, "APT::Update::P") && value != `"";`: // Pre-Invoke, Post-Invoke…
			t.Errorf("hook of the machine: %s", line)
		case slices.Contains([]string{"Dir::State", "Dir::State::lists", "Dir::State::status", "Dir::Cache", "Dir::Etc::sourcelist", "Dir::Etc::sourceparts"}, name) &&
			!strings.Contains(value, a.dir):
			t.Errorf("state of the machine: %s", line)
		}
	}
}
