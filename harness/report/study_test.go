package report

import (
	"strings"
	"testing"
)

// TestStudies: cells of a matrix are one study, and the picture says in words what
// its bars are.
func TestStudies(t *testing.T) {
	docs := append(ofMatrix(), withFigures(0), withFigures(2), barrierOff())
	list := Studies(docs)
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "barrier-off ext3-overwrite m" {
		t.Fatalf("studies are %s", got)
	}
	for i, want := range []string{"fsync: median 381 µs, longest 3.12 ms", "fsync: theirs 34.5 s, ours 26.3 s", "large fsync: theirs 300 ns, ours 220 ns, of it with the drive 90.0 ns"} {
		if alt := list[i].Picture.Alt; !strings.Contains(alt, want) {
			t.Errorf("the picture of %s is told as %q, without %q", list[i].Name, alt, want)
		}
	}
	if rows := len(list[2].Figures.Rows); rows != 3 {
		t.Errorf("%d rows of figures of a matrix of three cells", rows)
	}
	if list[2].Runs != 3 || list[1].Runs != 2 || len(list[0].Lost) == 0 || len(list[0].Figures.Rows) > 0 {
		t.Errorf("studies are %+v", list)
	}
}
