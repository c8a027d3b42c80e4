package plot

import (
	"fmt"
	"strings"

	"powercut/harness/verdict"
)

// State is one content of the drive that was recovered: what the cut left, or one of
// several that a cut may leave.
type State struct {
	Name  string
	Cells []verdict.Class // one for each block, in order; empty where it is not known
}

// The map's geometry.
const (
	mapWidth = 430
	mapCell  = 11
	mapLeft  = 46
)

// maxCells is how many cells a state has; where there are more blocks, several share
// one, which shows the worst of them.
const maxCells = 1200

// severity orders the classes: the worst first.
var severity = []verdict.Class{verdict.Lost, verdict.Foreign, verdict.Torn, verdict.Unpromised, verdict.Absent, verdict.Early, verdict.Kept, ""}

// Survival draws the map of blocks and states. One state fills several lines of
// cells; of several each is a line, in which the blocks share what cells there are.
func Survival(id, call string, states []State) Figure {
	columns := int((mapWidth - mapLeft - 4) / mapCell)
	p := &pen{}
	y := 8.0
	for _, s := range states {
		per := PerCell(len(s.Cells))
		if len(states) > 1 {
			per = max(ceil(len(s.Cells), columns), 1)
		}
		cells := share(s.Cells, per)
		if len(states) > 1 {
			p.text("", "end", mapLeft-6, y+9, s.Name)
		}
		p.cells(cells, columns, per, y, len(states) == 1)
		y += float64(max(ceil(len(cells), columns), 1)) * mapCell
	}
	return Figure{
		ID: id, Name: call + "-survival", Title: "What survived of " + call, Width: mapWidth, Height: y + 8, Body: p.String(),
		Alt: survivalAlt(states),
	}
}

// PerCell is how many blocks share a cell in the map of one state.
func PerCell(blocks int) int { return max(ceil(blocks, maxCells), 1) }

func ceil(n, by int) int { return (n + by - 1) / by }

// share joins per blocks each into a cell.
func share(blocks []verdict.Class, per int) []verdict.Class {
	var cells []verdict.Class
	for at := 0; at < len(blocks); at += per {
		cells = append(cells, worst(blocks[at:min(at+per, len(blocks))]))
	}
	return cells
}

func worst(blocks []verdict.Class) verdict.Class {
	for _, class := range severity {
		for _, b := range blocks {
			if b == class {
				return class
			}
		}
	}
	return ""
}

// cells draws one path for each class: a page with thousands of elements is slow.
func (p *pen) cells(cells []verdict.Class, columns, per int, y float64, numbered bool) {
	for _, class := range severity {
		var d, marks strings.Builder
		for i, c := range cells {
			if c != class {
				continue
			}
			cx, cy := mapLeft+float64(i%columns)*mapCell, y+float64(i/columns)*mapCell
			fmt.Fprintf(&d, "M%s %sh9v9h-9z", num(cx), num(cy))
			if class == verdict.Lost || class == verdict.Foreign {
				fmt.Fprintf(&marks, "M%s %sl5 5m0-5l-5 5", num(cx+2), num(cy+2))
			}
		}
		if d.Len() > 0 {
			p.add(`<path class="%s" d="%s"><title>%s</title></path>`, or(string(class), "unknown"), d.String(), or(string(class), "not known"))
		}
		if marks.Len() > 0 {
			p.add(`<path class="mark" d="%s"/>`, marks.String())
		}
	}
	if !numbered {
		return
	}
	for i := 0; i < len(cells); i += columns {
		if lines := ceil(len(cells), columns); lines <= 12 || i/columns%4 == 0 {
			p.text("", "end", mapLeft-6, y+float64(i/columns)*mapCell+9, fmt.Sprint(i*per+1))
		}
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func survivalAlt(states []State) string {
	var parts []string
	for _, s := range states {
		n := map[verdict.Class]int{}
		for _, c := range s.Cells {
			n[c]++
		}
		var counts []string
		for _, class := range severity {
			if n[class] > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", n[class], or(string(class), "not known")))
			}
		}
		parts = append(parts, s.Name+": "+strings.Join(counts, ", "))
	}
	return "One cell a block, in the order of ops. " + strings.Join(parts, "; ") + "."
}
