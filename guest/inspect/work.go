package inspect

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxFailures bounds how many are told: a broken file system fails everywhere.
const maxFailures = 20

// Remove removes everything below dir but what is mkfs's Own, and returns what could not be
// removed.
func Remove(dir string, t *Tree) (failures []string) {
	for _, o := range slices.Backward(t.Objects[1:]) {
		if Own(o.Path) {
			continue
		}
		path, what, remove := filepath.Join(dir, o.Path), "unlink", unix.Unlink
		if o.Mode&unix.S_IFMT == unix.S_IFDIR {
			what, remove = "rmdir", unix.Rmdir
		}
		if err := remove(path); err != nil && len(failures) < maxFailures {
			failures = append(failures, fmt.Sprintf("%s %s: %v", what, o.Path, err))
		}
	}
	return failures
}

// Work tries whether the file system at dir still works: it makes, writes, syncs,
// renames, reads and removes a file and a directory of its own. It returns what does
// not.
func Work(dir string) (failures []string) {
	if what, err := try(filepath.Join(dir, "powercut-tries")); err != nil {
		return []string{fmt.Sprintf("%s a new file: %v", what, bare(err))}
	}
	return nil
}

// bare is the error without the path that os adds.
func bare(err error) error {
	switch e := err.(type) {
	case *os.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// try makes a directory with a file, and removes both.
func try(dir string) (what string, err error) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	content := bytes.Repeat([]byte("power"), 3000)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"make a directory for", func() error { return os.Mkdir(dir, 0o755) }},
		{"write", func() error { return os.WriteFile(a, content, 0o644) }},
		{"sync", func() error { return syncPath(a) }},
		{"rename", func() error { return os.Rename(a, b) }},
		{"sync the directory of", func() error { return syncPath(dir) }},
		{"read", func() error {
			got, err := os.ReadFile(b)
			if err == nil && !bytes.Equal(got, content) {
				err = fmt.Errorf("%d bytes that are not those written", len(got))
			}
			return err
		}},
		{"remove", func() error { return os.Remove(b) }},
		{"remove the directory of", func() error { return os.Remove(dir) }},
	} {
		if err := step.do(); err != nil {
			return step.what, err
		}
	}
	return "", nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
