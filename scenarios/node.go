package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on what is parsed at all.
const (
	maxSource = 32 << 10 // bytes of a scenario
	maxDepth  = 16       // nested lists and mappings
)

// byteOrderMark may stand at the head of a file in UTF-8 (YAML 1.2, chapter 5.2).
const byteOrderMark = "\ufeff"

// kind is what a node is.
type kind string

const (
	absent   kind = "nothing" // null, or a key without a value
	textual  kind = "text"
	numeric  kind = "number"
	boolean  kind = "true or false"
	sequence kind = "list"
	mapping  kind = "mapping"
)

// node is a value of the document, before it is known what it should be. It is
// the YAML tree without what a scenario has no use for: anchors, aliases, tags and
// merge keys are refused.
type node struct {
	kind   kind
	text   string // of a scalar, as written, without quotes
	place  place
	items  []*node
	fields []field
	loose  bool // from --set, where a word is a text whatever it looks like
}

// field is an entry of a mapping.
type field struct {
	name  string
	place place
	value *node
}

// scalar reports whether n is a single word or text.
func (n *node) scalar() bool { return n.kind != sequence && n.kind != mapping }

// get returns the value of a mapping's field, or nil.
func (n *node) get(name string) *node {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// set replaces or adds a mapping's field.
func (n *node) set(name string, value *node) {
	for i, f := range n.fields {
		if f.name == name {
			n.fields[i].value = value
			return
		}
	}
	n.fields = append(n.fields, field{name: name, place: value.place, value: value})
}

// parseNode reads one YAML document of src. It returns nil where src holds none.
func parseNode(src *source, data []byte) (root *node, err error) {
	start := place{source: src, line: 1, column: 1}
	if len(data) > maxSource {
		return nil, start.errorf("is larger than %d bytes", maxSource)
	}
	// The YAML library is handed files that anyone may have written. A panic of
	// its own must not end a run in a stack trace.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, start.errorf("cannot be read as YAML: %v", r)
		}
	}()
	// The library folds the lines of a text only if the last one is ended.
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	file, err := parser.ParseBytes(append(bytes.Clone(data), '\n'), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(src, err)
	}
	c := converter{source: src}
	for _, doc := range file.Docs {
		if doc.Body == nil && doc.Start == nil {
			continue
		}
		if root != nil || c.documents > 0 {
			return nil, c.placeOf(doc.Start).errorf("a second document begins here; there may be one")
		}
		c.documents++
		if doc.Body == nil {
			continue
		}
		if root, err = c.convert(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// syntaxError turns an error of the YAML library into one of ours.
func syntaxError(src *source, err error) *Error {
	p := place{source: src, line: 1, column: 1}
	var yamlErr yaml.Error
	if !errors.As(err, &yamlErr) {
		return p.errorf("cannot be read as YAML: %v", err)
	}
	if tk := yamlErr.GetToken(); tk != nil && tk.Position != nil {
		p.line, p.column = tk.Position.Line, tk.Position.Column
	}
	hint := ""
	if p.line <= len(src.lines) && bareComparison.MatchString(src.lines[p.line-1]) {
		hint = `; put a comparison in quotes, such as ">= 2"`
	}
	return p.errorf("cannot be read as YAML: %s%s", yamlErr.GetMessage(), hint)
}

// bareComparison finds a comparison that YAML takes for the head of a folded text.
var bareComparison = regexp.MustCompile(`[:-]\s+>=?\s*[0-9]`)

// converter turns the library's tree into nodes.
type converter struct {
	source    *source
	documents int
}

func (c *converter) placeOf(tk *token.Token) place {
	p := place{source: c.source, line: 1, column: 1}
	if tk != nil && tk.Position != nil {
		p.line, p.column = tk.Position.Line, tk.Position.Column
	}
	return p
}

func (c *converter) convert(n ast.Node, depth int) (*node, error) {
	p := c.placeOf(n.GetToken())
	if depth > maxDepth {
		return nil, p.errorf("is nested more than %d deep", maxDepth)
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return &node{kind: absent, place: p}, nil
	case *ast.StringNode:
		if tk := n.GetToken(); tk.Type == token.StringType && strings.Contains(strings.TrimSpace(tk.Origin), "\t") {
			return nil, p.errorf("has a tab in a text without quotes; write a space, or put the text in quotes") // the library drops it
		}
		return &node{kind: textual, text: n.Value, place: p}, nil
	case *ast.LiteralNode:
		return &node{kind: textual, text: n.Value.Value, place: p}, nil
	case *ast.BoolNode:
		return &node{kind: boolean, text: n.GetToken().Value, place: p}, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return &node{kind: numeric, text: n.GetToken().Value, place: p}, nil
	case *ast.SequenceNode:
		return c.list(n, depth)
	case *ast.MappingNode:
		return c.mapping(n, depth)
	case *ast.AnchorNode, *ast.AliasNode:
		return nil, p.errorf("anchors and aliases are not supported; write the value out")
	case *ast.TagNode:
		return nil, p.errorf("tags are not supported; write the value without %s", n.GetToken().Value)
	case *ast.DirectiveNode:
		return nil, p.errorf("directives are not supported; begin with the scenario")
	}
	return nil, p.errorf("%s is not supported", n.Type())
}

func (c *converter) list(n *ast.SequenceNode, depth int) (*node, error) {
	out := &node{kind: sequence, place: c.placeOf(n.GetToken())}
	for _, value := range n.Values {
		item, err := c.convert(value, depth+1)
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, item)
	}
	return out, nil
}

func (c *converter) mapping(n *ast.MappingNode, depth int) (*node, error) {
	out := &node{kind: mapping, place: c.placeOf(n.GetToken())}
	lines := map[string]int{}
	for i, entry := range n.Values {
		key, p, err := c.key(entry.Key)
		if err != nil {
			return nil, err
		}
		if line, twice := lines[key]; twice {
			return nil, p.errorf("the field %q is given twice; first in line %d", key, line)
		}
		lines[key] = p.line
		value, err := c.convert(entry.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if value.kind == absent {
			value.place = p // the library places an absent value behind the colon
		}
		if i == 0 && !n.IsFlowStyle {
			out.place = p
		}
		out.fields = append(out.fields, field{name: key, place: p, value: value})
	}
	return out, nil
}

// key returns a mapping key that is a plain word.
func (c *converter) key(n ast.MapKeyNode) (string, place, error) {
	p := c.placeOf(n.GetToken())
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, p, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.GetToken().Value, p, nil
	case *ast.MergeKeyNode:
		return "", p, p.errorf("merge keys are not supported; write the fields out")
	}
	return "", p, p.errorf("a field's name must be a word, not %s", fmt.Sprint(n.Type()))
}
