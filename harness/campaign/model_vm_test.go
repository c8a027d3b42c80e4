package campaign

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"powercut/guest/ops"
	"powercut/guest/wire"
	"powercut/harness/blocklog"
	"powercut/harness/disk"
	"powercut/harness/machine"
	"powercut/harness/model"
	"powercut/scenarios"
)

// guestOf forks a guest for a scenario, on a drive of its own.
func guestOf(t *testing.T, l *Lab, s scenarios.Scenario) (*run, *machine.Guest) {
	t.Helper()
	r := &run{lab: l, scenario: s, seed: 1}
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	base, err := os.Open(r.base)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log, err := blocklog.Create(filepath.Join(dir, logFile), int64(s.Filesystem.Size))
	if err != nil {
		t.Fatal(err)
	}
	g, err := r.machine.Fork(t.Context(), dir, disk.New(disk.Config{Base: base, Size: int64(s.Filesystem.Size), Log: log, WriteCache: true}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), log.Close(), base.Close()); err != nil {
			t.Error(err)
		}
	})
	return r, g
}

// lists is how many random lists a guest is asked for at once, and roundsOfADisk how
// often with one disk: nilfs2 frees no space without its cleaner, which no guest has.
const (
	lists         = 40
	roundsOfADisk = 10
)

// TestModel: the model and a real file system agree on everything that ops leave, and
// on each error, over random lists: a few, or as many as POWERCUT_LISTS says.
func TestModel(t *testing.T) {
	l := newLab(t)
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("POWERCUT_LISTS")); err == nil {
		rounds = max(1, n/lists)
	}
	for _, fs := range []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "nilfs2"} {
		t.Run(fs, func(t *testing.T) {
			s := load(t, "barrier-on", "workload.calls=[fsync]", "filesystem.type="+fs, "filesystem.mount=", "filesystem.size=320MiB")
			for first := 0; first < rounds; first += roundsOfADisk {
				t.Run(strconv.Itoa(first*lists), func(t *testing.T) {
					r, g := guestOf(t, l, s)
					for round := first; round < min(first+roundsOfADisk, rounds); round++ {
						rehearse(t, g, asked(fs, r.mount(), uint64(round)))
					}
				})
			}
		})
	}
}

// asked are the lists of a round.
func asked(fs string, m wire.Mount, round uint64) wire.Rehearsal {
	ask := wire.Rehearsal{Mount: m}
	for i := range uint64(lists) {
		random := rand.New(rand.NewPCG(round, i))
		ask.Plans = append(ask.Plans, ops.Plan{Ops: model.Random(random, 5+random.IntN(30), model.FeaturesOf(fs)), Seed: i})
	}
	return ask
}

func rehearse(t *testing.T, g *machine.Guest, ask wire.Rehearsal) {
	t.Helper()
	i := 0
	err := g.Rehearse(t.Context(), ask, func(p wire.Performance) error {
		if wrong := disagreement(ask.Plans[i], p); len(wrong) > 0 {
			t.Errorf("%s\nafter\n%s", strings.Join(wrong, "\n"), listing(ask.Plans[i].Ops))
		}
		i++
		return nil
	})
	if err != nil || i != len(ask.Plans) {
		t.Fatalf("%d of %d lists were rehearsed: %v", i, len(ask.Plans), err)
	}
}

// disagreement follows a plan in the model.
func disagreement(p ops.Plan, got wire.Performance) (wrong []string) {
	s := model.New()
	for i, o := range p.Ops {
		states, err := model.Apply(s, o, i+1)
		want := int32(0)
		if err != nil {
			want, s = int32(err.(unix.Errno)), model.Refuse(s, o, i+1)
		} else {
			s = states[len(states)-1]
		}
		if i >= len(got.Errnos) || got.Errnos[i] != want {
			return []string{"op " + o.String() + ": the model says " + errnoName(want) + ", the guest " + errnoName(append(got.Errnos, -1)[i])}
		}
	}
	return append(model.Differences(s, &got.Tree, p.Seed), got.Work...)
}

func listing(list []ops.Op) string {
	var b strings.Builder
	for _, o := range list {
		b.WriteString("- " + o.String() + "\n")
	}
	return b.String()
}
