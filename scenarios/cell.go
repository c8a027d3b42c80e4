package scenarios

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
)

// Cell is one run of a suite.
type Cell struct {
	Scenario Scenario
	Seed     uint64
	// Digest names the scenario's content, every default written out.
	Digest string
}

// Name is the cell's name, which no other cell of a suite has. It ends with the seed.
func (c Cell) Name() string { return fmt.Sprintf("%s-seed-%d", c.Scenario.Name, c.Seed) }

// maxName is the limit that Scenario.Name has.
const maxName = 120

// maxSuite bounds the cells of a suite.
const maxSuite = 100_000

// Check says what is wrong with a scenario that only those know who carry it out, and
// which field it is about.
type Check func(Scenario) (field string, err error)

// Cells spells a suite out, in the order of the document. Errors are all *Error.
func (s *Suite) Cells(check Check) ([]Cell, error) {
	b := spelling{suite: s, check: check, known: map[string]string{}}
	for i := range s.Groups {
		if err := b.group(i); err != nil {
			return nil, err
		}
	}
	return b.cells, nil
}

// spelling gathers the cells of a suite.
type spelling struct {
	suite *Suite
	check Check
	cells []Cell
	known map[string]string // digests, by the cells' names
}

func (b *spelling) group(number int) error {
	l, err := b.suite.lattice(number)
	if err != nil {
		return err
	}
	named := false
	for i, arg := range l.group.Scenarios {
		at := b.suite.places.at(fmt.Sprintf("groups.%d.scenarios.%d", number, i))
		for _, member := range members(arg) {
			for p := range points(l.axes) {
				some, err := b.point(&l, at, []string{arg, member}, p)
				if err != nil {
					return err
				}
				named = named || some
			}
		}
	}
	for _, c := range l.exclude {
		if !c.used {
			return c.place.errorf("exclude: excludes nothing; no cell of this group is like that")
		}
	}
	for _, c := range l.rules {
		if !c.used {
			return c.place.errorf("rules: is about nothing; no cell of this group is like that")
		}
	}
	if !named {
		return b.suite.places.at(fmt.Sprintf("groups.%d", number)).errorf("groups: this group is empty; exclude leaves nothing of it")
	}
	return nil
}

// point adds the cells of a scenario at a point, and tells whether there are any.
func (b *spelling) point(l *lattice, at place, names []string, p point) (bool, error) {
	if l.excluded(names, p, "") {
		return false, nil
	}
	set := append(l.set[:len(l.set):len(l.set)], p.overrides()...)
	set = append(set, Alone) // a suite cannot be given modules
	found, err := Find(b.suite.relative(names[1]), append(set, l.expected(names, p)...)...)
	if err != nil {
		return false, b.placed(err, at, p)
	}
	some := false
	for _, s := range found {
		named := append(names[:2:2], s.Name)
		if l.excluded(named, p, "") {
			continue
		}
		s = s.at(p)
		if field, err := b.check(s); err != nil {
			return false, b.placed(err, p.place(field, at), p)
		}
		if len(s.Name) > maxName {
			return false, at.errorf("the name of a cell, %s, has more than %d characters; make names shorter", s.Name, maxName)
		}
		digest, err := s.digest()
		if err != nil {
			return false, b.placed(err, at, p)
		}
		for seed := l.first; seed <= l.last; seed++ {
			if l.excluded(named, p, strconv.Itoa(seed)) {
				continue
			}
			some = true
			if err := b.add(Cell{s, uint64(seed), digest}, at); err != nil {
				return false, err
			}
		}
	}
	return some, nil
}

// add adds a cell, unless it is there already.
func (b *spelling) add(c Cell, at place) error {
	name := c.Name()
	digest, twice := b.known[name]
	switch {
	case twice && digest == c.Digest:
		return nil
	case twice:
		return at.errorf("two scenarios that differ make a cell called %s; give one of them another name, or the groups different axes", name)
	case len(b.cells) == maxSuite:
		return at.errorf("the suite has more than %d cells", maxSuite)
	}
	b.known[name] = c.Digest
	b.cells = append(b.cells, c)
	return nil
}

// placed gives an error the place in the suite that it comes from.
func (b *spelling) placed(err error, at place, p point) error {
	var e *Error
	switch {
	case errors.As(err, &e) && e.File == b.suite.file:
		return err
	case len(p) == 0:
		return at.errorf("%v", err)
	}
	return at.errorf("with %s: %v", p, err)
}

func (l *lattice) excluded(names []string, p point, seed string) bool {
	return slices.ContainsFunc(l.exclude, func(c *condition) bool { return c.fits(names, p, seed) })
}

// expected is what the rules say of a scenario at a point.
func (l *lattice) expected(names []string, p point) []Override {
	var set []Override
	for i := range l.rules {
		if l.rules[i].fits(names, p, "") {
			set = append(set, l.rules[i].set...)
		}
	}
	return set
}

// members lists the scenarios that a name stands for: of a family all, else itself.
func members(arg string) []string {
	var family []string
	for _, file := range files() {
		if baseName(file) == arg {
			return []string{arg}
		}
		if path.Dir(file) == arg {
			family = append(family, baseName(file))
		}
	}
	if family == nil {
		return []string{arg}
	}
	return family
}

// digest names the scenario's content.
func (s Scenario) digest() (string, error) {
	text, err := s.Marshal()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
