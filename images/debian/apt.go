package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"powercut/images/command"
)

// Architecture is that of all packages fetched here.
const Architecture = "amd64"

const (
	updateTimeout   = 5 * time.Minute
	downloadTimeout = 10 * time.Minute
)

// etcApt is the machine's apt configuration.
const etcApt = "/etc/apt"

// ErrUnreachable says that the mirror did not deliver a suite's lists.
var ErrUnreachable = errors.New("cannot read the package lists of Debian's mirror (check the network)")

// ErrNotDebian says that a machine does not have what Debian brings.
var ErrNotDebian = errors.New("this machine is not set up for Debian packages")

// keyrings are the places of Debian's archive keyring, in order of preference.
func keyrings() []string {
	return []string{
		"/usr/share/keyrings/debian-archive-keyring.gpg",
		"/usr/share/keyrings/debian-archive-keyring.pgp",
	}
}

// Apt is an apt state of its own, in one folder, for one suite. The machine's
// proxy and network settings (/etc/apt/apt.conf.d) hold in it; its sources,
// preferences, hooks and installed packages do not.
type Apt struct {
	dir   string
	suite string
}

// Setup makes the state in dir, an empty folder, and fetches the package lists
// of suite ("bookworm") and, where the machine uses it, of its security suite.
func Setup(ctx context.Context, dir, suite string) (*Apt, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotDebian, err)
	}
	mirror, err := MachineMirror()
	if err != nil {
		return nil, err
	}
	keyring, err := findKeyring()
	if err != nil {
		return nil, err
	}
	a := &Apt{dir: dir, suite: suite}
	if err := a.write(mirror, keyring); err != nil {
		return nil, fmt.Errorf("make apt state: %w", err)
	}
	if err := a.command(updateTimeout, "apt-get", "update").Run(ctx); err != nil {
		return nil, unreachable(ctx, suite, err)
	}
	return a, nil
}

// MachineMirror returns the mirror that this machine is set up with.
func MachineMirror() (Mirror, error) {
	sources, err := Sources(etcApt)
	if err != nil {
		return Mirror{}, err
	}
	return FindMirror(sources)
}

// unreachable says what a failed update usually means. That the caller gave up
// is left as it is.
func unreachable(ctx context.Context, suite string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("read suite %s from the mirror named in %s: %w: %w", suite, etcApt, ErrUnreachable, err)
}

func findKeyring() (string, error) {
	for _, path := range keyrings() {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: its archive keyring is missing: install the package debian-archive-keyring", ErrNotDebian)
}

// write lays out the folder.
func (a *Apt) write(mirror Mirror, keyring string) error {
	for _, folder := range []string{"lists/partial", "cache/archives/partial", "empty"} {
		if err := os.MkdirAll(filepath.Join(a.dir, folder), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"status":       "",
		"sources.list": a.sources(mirror, keyring),
		"apt.conf":     a.config(),
	} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (a *Apt) sources(mirror Mirror, keyring string) string {
	line := fmt.Sprintf("deb [arch=%s signed-by=%s] ", Architecture, keyring)
	text := line + mirror.Main + " " + a.suite + " main\n"
	if mirror.Security != "" && a.suite != "sid" {
		text += line + mirror.Security + " " + a.suite + "-security main\n"
	}
	return text
}

// config is read by apt after the machine's own configuration (apt.conf(5)).
// Hooks of the machine are cleared, since they would act on the machine.
//
// Run by root, apt normally changes to a user of its own for downloads; that
// user cannot enter a cache folder below /root. What is downloaded is checked
// against signatures either way.
func (a *Apt) config() string {
	return fmt.Sprintf(`#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::Contents-deb;
#clear APT::Architectures;
APT::Architecture "%[2]s";
APT::Architectures { "%[2]s"; };
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Dir::State "%[1]s";
Dir::State::lists "%[1]s/lists";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache";
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "%[1]s/empty";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "%[1]s/empty";
Dir::Etc::trusted "/dev/null";
Dir::Etc::trustedparts "%[1]s/empty";
Dir::Log "%[1]s";
`, a.dir, Architecture)
}

func (a *Apt) command(timeout time.Duration, program string, args ...string) command.Command {
	return command.Command{
		Path:    program,
		Args:    append([]string{"-c", filepath.Join(a.dir, "apt.conf"), "-q"}, args...),
		Dir:     a.dir,
		Timeout: timeout,
	}
}

// Kernel returns the name of the newest kernel image package of a version
// ("6.1" gives "linux-image-6.1.0-57-amd64"), or where that is empty of any: the one that the suite's meta
// package depends on, or, if that is of another version, the newest by name.
func (a *Apt) Kernel(ctx context.Context, version string) (string, error) {
	show, err := a.command(0, "apt-cache", "--no-all-versions", "show", "linux-image-"+Architecture).Output(ctx)
	if err == nil {
		if name := kernelIn(show, version); name != "" {
			return name, nil
		}
	}
	names, err := a.command(0, "apt-cache", "pkgnames", "linux-image-"+version).Output(ctx)
	if err != nil {
		return "", err
	}
	if name := newest(strings.Fields(names), version); name != "" {
		return name, nil
	}
	return "", fmt.Errorf("find kernel: Debian's suite %s has no linux-image-%s*-%s", a.suite, version, Architecture)
}

// kernelName matches plain kernel images of a version, or of any where that is empty:
// no realtime, cloud, unsigned or debug ones.
func kernelName(version string) *regexp.Regexp {
	number := regexp.QuoteMeta(version)
	if version == "" {
		number = "[0-9]+"
	}
	return regexp.MustCompile(`^linux-image-` + number + `[.-][0-9a-z.+~]*(-[0-9]+)?-` + Architecture + `$`)
}

// kernelIn reads the meta package's Depends field.
func kernelIn(show, version string) string {
	name := kernelName(version)
	for line := range strings.Lines(show) {
		deps, ok := strings.CutPrefix(line, "Depends:")
		if !ok {
			continue
		}
		for _, word := range strings.FieldsFunc(deps, func(r rune) bool { return strings.ContainsRune(" ,|()\n", r) }) {
			if name.MatchString(word) && word != "linux-image-"+version+"-"+Architecture {
				return word
			}
		}
	}
	return ""
}

// newest returns the last of the matching names, numbers in them compared as
// numbers.
func newest(names []string, version string) string {
	match := kernelName(version)
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return !match.MatchString(n) || n == "linux-image-"+version+"-"+Architecture
	})
	if len(names) == 0 {
		return ""
	}
	return slices.MaxFunc(names, compareNumbers)
}

var numbers = regexp.MustCompile(`[0-9]+|[^0-9]+`)

// compareNumbers orders "6.1.0-9" before "6.1.0-10".
func compareNumbers(a, b string) int {
	x, y := numbers.FindAllString(a, -1), numbers.FindAllString(b, -1)
	return slices.CompareFunc(x, y, func(p, q string) int {
		if isDigits(p) && isDigits(q) {
			p, q = strings.TrimLeft(p, "0"), strings.TrimLeft(q, "0")
			if len(p) != len(q) {
				return len(p) - len(q)
			}
		}
		return strings.Compare(p, q)
	})
}

func isDigits(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// Download fetches a package, "NAME" or "NAME=VERSION", and returns its file, in
// the state's folder. apt has checked it against the signed lists.
func (a *Apt) Download(ctx context.Context, name string) (string, error) {
	if err := a.command(downloadTimeout, "apt-get", "download", name).Run(ctx); err != nil {
		return "", fmt.Errorf("download Debian package %s: %w", name, err)
	}
	plain, _, _ := strings.Cut(name, "=")
	files, err := filepath.Glob(filepath.Join(a.dir, plain+"_*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("download Debian package %s: apt-get left %d files of it", name, len(files))
	}
	return files[0], nil
}
