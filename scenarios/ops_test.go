package scenarios

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const opsCase = `name: x
about: y
filesystem: {type: ext4}
workload:
  kind: ops
  ops:
    - write a 4KiB
    - fsync a
    - fsync a
    - rename a b allow ENOENT
`

// TestOps: a workload of ops is cut after its last one, expects nothing to be lost, and
// reads back equal from what Marshal writes.
func TestOps(t *testing.T) {
	s, err := Parse("x.yaml", []byte(opsCase))
	if err != nil {
		t.Fatal(err)
	}
	if s.Cut.Ack != 4 || s.Workload.Count != 4 || len(s.Expect.Customary) != 1 || len(s.Expect.Failed) != 1 {
		t.Errorf("cut %v of %d ops, %+v", s.Cut, s.Workload.Count, s.Expect)
	}
	text, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.yaml", text)
	if err != nil {
		t.Fatalf("%v of\n%s", err, text)
	}
	if d := cmp.Diff(s, again); d != "" {
		t.Errorf("scenario (-want +got):\n%s\nof\n%s", d, text)
	}
	if p := s.OpsPlan(1); len(p.Ops) != 4 || p.Seed == s.OpsPlan(2).Seed {
		t.Errorf("plan %+v", p)
	}
	for _, o := range []string{"cut={ack: 2}", "workload.ops=[create a, fsync a]", "expect.customary=>= 1"} {
		override, err := ParseOverride(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("x.yaml", []byte(opsCase), override); err != nil {
			t.Errorf("%s: %v", o, err)
		}
	}
	if !strings.Contains(Reference(), "`pwrite FILE OFFSET+LENGTH [O_DIRECT] [O_SYNC] [O_DSYNC]`") {
		t.Error("the reference has no word of pwrite")
	}
}

// TestOpsHold: files that hold more than can be looked at, each name counted, are refused.
func TestOpsHold(t *testing.T) {
	for list, want := range map[string]string{
		"write a 16MiB, link a b, link a c, link a d":                          "",
		"write a 16MiB, link a b, link a c, link a d, truncate a 0, write e 1": "",
		"write a 16MiB, link a b, link a c, link a d, link a e, sync":          "83886080 bytes",
	} {
		override, err := ParseOverride("workload.ops=[" + list + "]")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Parse("x.yaml", []byte(opsCase), override); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
}
