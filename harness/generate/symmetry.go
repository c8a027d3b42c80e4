package generate

import (
	"slices"
	"strings"

	"powercut/guest/ops"
)

// canonical tells whether names that are alike appear in their order: of the two
// directories d first, and in each directory, and at the root, a before b. Of all
// sequences that differ in such names alone that is so for one, and for all that it
// begins with.
func canonical(list []ops.Op) bool {
	seen := []string{}
	first := func(name, before string) bool {
		if !slices.Contains(seen, name) {
			seen = append(seen, name)
		}
		return before == "" || slices.Contains(seen, before)
	}
	for _, o := range list {
		for _, path := range []string{o.File, o.To} {
			if path == "" || path == "." || ops.IsHandle(path) {
				continue
			}
			dir, name, inDir := strings.Cut(path, "/")
			if !inDir {
				dir, name = "", path
			}
			if inDir && !first(dir, predecessor[dir]) {
				return false
			}
			before := predecessor[name]
			if inDir && before != "" {
				before = dir + "/" + before
			}
			if !first(path, before) {
				return false
			}
		}
	}
	return true
}

// predecessor is the name that must have appeared before.
var predecessor = map[string]string{"b": "a", "e": "d"}
