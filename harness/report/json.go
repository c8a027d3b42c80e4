package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// SummarySchema names the version of Combined.
const SummarySchema = "powercut/summary/1"

// Combined holds several runs: a family, or one scenario with many seeds.
type Combined struct {
	Schema string      `json:"schema" doc:"powercut/summary/1"`
	Runs   []*Document `json:"runs" doc:"the runs, in the order in which they were run"`
	// Comparisons is empty where no matrix asks for any.
	Comparisons []Comparison `json:"comparisons,omitempty" doc:"what the matrices say must hold between their cells, where these were run"`
}

// JSON writes one run as an indented JSON document, in one write. Lists are
// never null. It fails where w fails, or where a number is not finite.
func JSON(w io.Writer, d *Document) error {
	return write(w, d.listed())
}

// JSONAll writes several runs as one document, a Combined.
func JSONAll(w io.Writer, docs []*Document) error {
	all := Combined{Schema: SummarySchema, Runs: make([]*Document, len(docs)), Comparisons: Compare(docs)}
	for i, d := range docs {
		all.Runs[i] = d.listed()
	}
	return write(w, all)
}

// listed returns a copy in which no list is nil.
func (d *Document) listed() *Document {
	c := *d
	c.Calls = append([]Call{}, d.Calls...)
	c.Expectations = append([]Expectation{}, d.Expectations...)
	for i := range c.Calls {
		c.Calls[i].Findings = append([]Finding{}, c.Calls[i].Findings...)
	}
	return &c
}

func write(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
