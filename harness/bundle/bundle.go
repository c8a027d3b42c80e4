// Package bundle keeps a crash state and all that is needed to recover and judge it
// again in one file, which works on a machine that has no run folder.
//
// A bundle is a tar archive, compressed with zstd, so that
//
//	tar --zstd -xf FILE -C DIR
//
// makes a run folder of it: bundle.json (the Manifest, first), scenario.yaml, run.json,
// base.img (the formatted disk), and of one call cut.json, ledger and block log. The
// kernel is not in it: run.json names it, by package and by hash.
package bundle

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/cespare/xxhash/v2"

	"powercut/harness/crash"
	"powercut/harness/report"
)

// Schema names the version of the format.
const Schema = "powercut/bundle/1"

// Manifest says what a bundle is about, and lists the members that follow it.
type Manifest struct {
	Schema   string      `json:"schema"`
	Powercut string      `json:"powercut"` // the program that made it: version, and hash of its file
	Scenario string      `json:"scenario"`
	Seed     uint64      `json:"seed"`
	Call     string      `json:"call"`
	State    crash.State `json:"state"`
	// Verdict is what was found of the state.
	Verdict *report.Call `json:"verdict"`
	Told    []string     `json:"told,omitempty"` // why it fails, in words
	Members []Member     `json:"members"`
}

// Member is a file of the bundle.
type Member struct {
	Name  string `json:"name"`  // path below the run folder
	Bytes int64  `json:"bytes"` // its size
	Data  int64  `json:"data"`  // of these, those in blocks that are not all zeros
}

// manifestFile is the first member.
const manifestFile = "bundle.json"

// FormatError says that a file is no bundle, or one of a version that this program does
// not know.
type FormatError struct {
	Path string
	What string
}

func (e *FormatError) Error() string { return fmt.Sprintf("open bundle %s: %s", e.Path, e.What) }

// ErrDamaged is wrapped by the errors about a bundle that is not as it was written.
var ErrDamaged = errors.New("the bundle is damaged")

// program names this program: its version, where the build knows one, and the hash of
// its file.
func program() string {
	version := "unknown version"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	path, err := os.Executable()
	if err != nil {
		return version
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return version
	}
	return fmt.Sprintf("%s, xxh64 %016x", version, xxhash.Sum64(b))
}
