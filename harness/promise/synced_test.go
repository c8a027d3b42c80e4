package promise

import (
	"strings"
	"testing"
)

// TestObjects: a sync call is about an inode, whatever it is called later; a change is one
// of the inode, or of what the path leads to.
func TestObjects(t *testing.T) {
	list := parse(t, strings.Split("write a 1KiB; fsync a; write b 1KiB; fsync b; rename b a; mkdir d; write d/x 1KiB; open d/x as @h; fsync @h; unlink d/x", "; ")...)
	got, err := Objects(done(list), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Object{
		".": {true, 6, 0, 0}, "a": {true, 5, 4, 2}, "b": {false, 5, 4, 2}, "d": {true, 10, 0, 3}, "d/x": {false, 10, 9, 4},
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for path, o := range want {
		if got[path] != o {
			t.Errorf("%s: %+v, want %+v", path, got[path], o)
		}
	}
	list = append(list, parse(t, "sync")...)
	all, err := Objects(done(list), nil)
	if err != nil || all["d"].Synced != 11 || all["a"].Synced != 11 {
		t.Errorf("after sync: %v, %v", all, err)
	}
	all, err = Objects(done(list), []int{11})
	if err != nil || all["d"].Synced != 0 || all["a"].Synced != 4 {
		t.Errorf("after a sync that is doubted: %v, %v", all, err)
	}
}
