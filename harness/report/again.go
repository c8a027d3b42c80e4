package report

import (
	"fmt"
	"strings"
)

// Again is the command line that repeats the run: the scenario as resolved is in its
// folder. The same seed makes the same decisions; the guest's own timing may differ.
func (d *Document) Again() string {
	words := []string{"powercut", "run", quote(d.Folder + "/scenario.yaml"), "--seed", fmt.Sprint(d.Seed)}
	if d.Machine.Kernel != "" && !strings.HasPrefix(d.Machine.Kernel, "debian:") {
		words = append(words, "--kernel", quote(d.Machine.Kernel))
		if d.Machine.ModulesFrom != "" {
			words = append(words, "--modules", quote(d.Machine.ModulesFrom))
		}
	}
	for _, m := range d.Machine.Modules {
		if m.Variant == "" { // the user's; those of powercut are in the scenario
			words = append(words, "--module", quote(m.Path))
		}
	}
	for _, param := range d.Machine.Params {
		words = append(words, "--kernel-param", quote(param))
	}
	if d.Machine.Ledger == LedgerSerial {
		words = append(words, "--serial-ledger")
	}
	return strings.Join(words, " ")
}

// quote writes a word for a POSIX shell.
func quote(s string) string {
	safe := func(r rune) bool {
		return r < 0x80 && !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%", r)
	}
	if s != "" && strings.IndexFunc(s, safe) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
