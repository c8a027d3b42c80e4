package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// compiled reads a schema with a validator of other people's making.
func compiled(t *testing.T, schema []byte) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchema: what is written is valid, and what is not a report is not.
func TestSchema(t *testing.T) {
	one, several := compiled(t, DocumentSchema()), compiled(t, CombinedSchema())
	value := func(write func(*bytes.Buffer) error, old, changed string) any {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if old != "" && !strings.Contains(b.String(), old) {
			t.Fatalf("there is no %s to change", old)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(b.String(), old, changed, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	doc := func(b *bytes.Buffer) error { return JSON(b, barrierOff()) }
	for _, d := range []*Document{barrierOff(), ext3Overwrite(), aMatrix()[0], onQcow2(), {Schema: Schema}} {
		if err := one.Validate(value(func(b *bytes.Buffer) error { return JSON(b, d) }, "", "")); err != nil {
			t.Errorf("%s: %v", d.Scenario, err)
		}
	}
	if err := several.Validate(value(func(b *bytes.Buffer) error { return JSONAll(b, aMatrix()) }, "", "")); err != nil {
		t.Error(err)
	}
	for name, change := range map[string][2]string{
		"another version": {`"powercut/run/1"`, `"powercut/run/2"`},
		"missing":         {`"held"`, `"hold"`},
		"wrong type":      {`"lost": 50`, `"lost": "50"`},
		"negative":        {`"seed": 18446744073709551615`, `"seed": -1`},
		"unknown reason":  {`"no flush before the ack"`, `"bad luck"`},
		"no list":         {`"expectations": [`, `"expectation": [`},
	} {
		if err := one.Validate(value(doc, change[0], change[1])); err == nil {
			t.Errorf("%s: a document with %s is taken for valid", name, change[1])
		}
	}
	if err := one.Validate(value(func(b *bytes.Buffer) error { return JSONAll(b, manySeeds()) }, "", "")); err == nil {
		t.Error("a summary is taken for a run")
	}
	if !json.Valid(DocumentSchema()) {
		t.Error("the schema is no JSON")
	}
}

// TestMarkdown reads the text as GitHub does: its tables have the cells of the
// grids, with the very text that the terminal shows, and no markup but ours.
func TestMarkdown(t *testing.T) {
	hostile := barrierOff()
	hostile.Calls[1].Call, hostile.About = "fs|ync_*`", "<script>alert(1)</script> [x](y) \\| **"
	for _, docs := range [][]*Document{{barrierOff()}, {ext3Overwrite()}, {hostile}, manySeeds(), aMatrix(), nil} {
		var b bytes.Buffer
		if err := Markdown(&b, docs); err != nil {
			t.Fatal(err)
		}
		src := b.Bytes()
		md := goldmark.New(goldmark.WithExtensions(extension.GFM))
		tree := md.Parser().Parse(text.NewReader(src))
		var tables []Grid
		err := ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			switch n := n.(type) {
			case *ast.RawHTML, *ast.HTMLBlock, *ast.Link, *ast.Image:
				t.Errorf("a %s came out of a text", n.Kind())
			case *east.Table:
				if entering {
					tables = append(tables, readTable(n, src))
				}
			}
			return ast.WalkContinue, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []Grid
		if len(docs) > 1 {
			want = append(want, RunGrid(docs))
		}
		for _, d := range docs {
			if len(docs) > 1 && d.Held {
				continue
			}
			want = append(want, SurvivalGrid(d.Calls), CostGrid(d.Calls))
			for _, c := range d.Calls {
				if len(c.Findings) > 0 {
					g, _ := FindingGrid(c, DefaultFull)
					want = append(want, g)
				}
			}
		}
		if len(want) != len(tables) {
			t.Fatalf("%d tables, want %d:\n%s", len(tables), len(want), src)
		}
		for i := range want {
			sameCells(t, want[i], tables[i])
		}
	}
}

// readTable takes the texts out of a table that a reader has found.
func readTable(n *east.Table, src []byte) Grid {
	var g Grid
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []Cell
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			var b strings.Builder
			_ = ast.Walk(cell, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
				if s, ok := n.(*ast.Text); ok && entering {
					b.Write(s.Segment.Value(src))
				}
				return ast.WalkContinue, nil
			})
			cells = append(cells, Cell{Text: b.String()})
		}
		g.Rows = append(g.Rows, cells)
	}
	return g
}

func sameCells(t *testing.T, want, got Grid) {
	t.Helper()
	if len(got.Rows) != len(want.Rows)+1 {
		t.Fatalf("%d rows, want a head and %d", len(got.Rows), len(want.Rows))
	}
	for i, h := range want.Head {
		if text := plainOf(got.Rows[0][i].Text); text != strings.TrimSpace(h.Name) {
			t.Errorf("column %q was read as %q", h.Name, text)
		}
	}
	for i, row := range want.Rows {
		for j, c := range row {
			if text := plainOf(got.Rows[i+1][j].Text); text != strings.TrimSpace(c.Text) {
				t.Errorf("cell %q was read as %q", c.Text, text)
			}
		}
	}
}

// plainOf takes the escapes out that the parser leaves in its segments, as its
// renderer does.
func plainOf(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\\`*_{}[]<>#|~&!", s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
