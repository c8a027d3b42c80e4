package modules

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each variant has its sources, under a licence that they may have, and each patch
// changes nothing outside the module's folder.
func TestVariants(t *testing.T) {
	changed := regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)/[^/]+$`)
	for _, v := range Variants() {
		files, err := v.Files()
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", v.Name, len(files), err)
		}
		for name, text := range files {
			line, rest, _ := bytes.Cut(text, []byte("\n"))
			if !bytes.Contains(line, []byte("SPDX-License-Identifier: GPL-2.0")) || len(rest) == 0 {
				t.Errorf("%s: %s begins with %q", v.Name, name, line)
			}
			if v.Folder == "" {
				continue
			}
			for _, found := range changed.FindAllSubmatch(text, -1) {
				if string(found[1]) != v.Folder {
					t.Errorf("%s changes %s", v.Name, found[1])
				}
			}
			head, _, _ := bytes.Cut(text, []byte("\n--- a/"))
			if len(head) < 200 || len(head) == len(text) {
				t.Errorf("%s is not explained", name)
			}
		}
		if same, err := FindVariant(v.Name); err != nil || same != v || !slices.Contains(v.Siblings(), v) {
			t.Errorf("%s is not found: %v", v.Name, err)
		}
	}
	if names := VariantNames(); !slices.IsSorted(names) {
		t.Errorf("the names are not in order: %v", names)
	}
	if _, err := FindVariant("ext5"); err == nil || !strings.Contains(err.Error(), "jbd2-async-writes") {
		t.Errorf("unknown variant: %v", err)
	}
}

// Every patch in the folder is some variant's.
func TestPatchesAreUsed(t *testing.T) {
	all, err := sources.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	names := VariantNames()
	for _, f := range all {
		if !slices.Contains(names, strings.TrimSuffix(f.Name(), ".patch")) {
			t.Errorf("%s belongs to no variant", f.Name())
		}
	}
}
