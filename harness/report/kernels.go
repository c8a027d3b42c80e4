package report

import (
	"slices"
	"strings"
)

// kernelAxis is the axis of a matrix whose cells are the same in all but the kernel.
const kernelAxis = "kernel="

// byKernel tells whether runs differ in nothing but the kernel.
func byKernel(docs []*Document) bool {
	return !slices.ContainsFunc(docs, func(d *Document) bool {
		return len(d.Matrix.Cell) != 1 || !strings.HasPrefix(d.Matrix.Cell[0], kernelAxis)
	})
}

// kernels draws a table for each call, as Table does, with one row a run: kernels side
// by side.
func (p *page) kernels(docs []*Document) {
	for _, call := range callsOf(docs) {
		var rows []Call
		for _, d := range docs {
			for _, c := range d.Calls {
				if c.Call == call {
					c.Call = strings.TrimPrefix(d.Matrix.Cell[0], kernelAxis)
					rows = append(rows, c)
				}
			}
		}
		cols := visible(slices.Concat(survivalColumns(), costColumns()), rows)
		cols[0].name = "kernel"
		p.line(p.paint(bold, call))
		p.line(fitting(p, cols, rows))
		p.blank()
	}
}
