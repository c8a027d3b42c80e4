package report

import (
	"fmt"
	"slices"

	"powercut/harness/verdict"
)

// Differs says in what the verdict now is another one than before; "" where it is the
// same: the same recovery, and the same of every op. Why a promise was broken, and what
// the console said, is no part of it.
func Differs(before, now *Call) string {
	if before.Recovery.Class != now.Recovery.Class {
		return fmt.Sprintf("recovery was %q, now %q", before.Recovery.Class, now.Recovery.Class)
	}
	if before.Counts != now.Counts {
		return fmt.Sprintf("it was %s, now %s", inCounts(before.Counts), inCounts(now.Counts))
	}
	for _, part := range [][3]string{
		{"size of the file", before.Size, now.Size},
		{"first content of the file", before.Setup, now.Setup},
		{"holes of the file", before.Stray, now.Stray},
	} {
		if part[1] != part[2] {
			return fmt.Sprintf("the %s was %q, now %q", part[0], part[1], part[2])
		}
	}
	if (before.Tree == nil) != (now.Tree == nil) || before.Tree != nil && !slices.Equal(before.Tree.Findings, now.Tree.Findings) {
		return "other things of the tree broke their promise"
	}
	same := func(a, b Finding) bool { return a.OpVerdict == b.OpVerdict }
	if !slices.EqualFunc(before.Findings, now.Findings, same) {
		return "other ops, or other bytes of them, broke their promise"
	}
	return ""
}

func inCounts(c verdict.Counts) string {
	return fmt.Sprintf("%d of %d acknowledged, %d kept, %d lost, %d early, %d absent, %d torn, %d foreign",
		c.Acked, c.Ops, c.Kept, c.Lost, c.Early, c.Absent, c.Torn, c.Foreign)
}
