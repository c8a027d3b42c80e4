package qemu

import "strings"

// CheckKVM says in words why KVM cannot be used at all. nil means that it may
// work, which only Probe finds out.
func CheckKVM() error { return openKVM() }

// Remembered returns what Probe has found on this host since it was started, with
// a QEMU of that version, and kept in the file at path: the choice for each
// Probing.KernelID.
func Remembered(path, version string) map[string]Choice {
	found := map[string]Choice{}
	prefix := memoKey(version, "")
	for key, choice := range (memo{path: path}).all() {
		if kernel, ok := strings.CutPrefix(key, prefix); ok {
			found[kernel] = choice
		}
	}
	return found
}
