package workload

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// plan is a valid plan to vary.
func plan() Plan {
	return Plan{Kind: Overwrite, Path: "data/file", Size: 512000, Count: 2000, Bytes: 1, Stride: 512, Call: Fsync, Seed: 1}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Plan)
		want   string // beginning of the error; empty: valid
	}{
		"as it is":                {func(*Plan) {}, ""},
		"unknown kind":            {func(p *Plan) { p.Kind = "rename" }, `kind: "rename" is not one of`},
		"no call":                 {func(p *Plan) { p.Call = "" }, `call: "" is not one of`},
		"call in the wrong case":  {func(p *Plan) { p.Call = "o_sync" }, `call: "o_sync"`},
		"no path":                 {func(p *Plan) { p.Path = "" }, "path: "},
		"leading slash":           {func(p *Plan) { p.Path = "/file" }, "path: "},
		"mount point itself":      {func(p *Plan) { p.Path = "." }, "path: "},
		"path that leaves":        {func(p *Plan) { p.Path = "a/../../b" }, "path: "},
		"path with a nul":         {func(p *Plan) { p.Path = "a\x00b" }, "path: "},
		"longest name":            {func(p *Plan) { p.Path = strings.Repeat("n", 255) }, ""},
		"longer name":             {func(p *Plan) { p.Path = strings.Repeat("n", 256) }, "path: an element of 256"},
		"long path":               {func(p *Plan) { p.Path = strings.Repeat("n/", 600) + "f" }, "path: 1201 bytes"},
		"no size":                 {func(p *Plan) { p.Size = 0 }, "size: 0 is not in the range from 1 to 1073741824 for overwrite"},
		"too large":               {func(p *Plan) { p.Size = 1<<30 + 1 }, "size: "},
		"no ops":                  {func(p *Plan) { p.Count = 0 }, "count: 0 is not in the range from 1 to 1000000"},
		"too many ops":            {func(p *Plan) { p.Count = 1_000_001 }, "count: "},
		"no bytes":                {func(p *Plan) { p.Bytes = 0 }, "bytes: "},
		"too many bytes":          {func(p *Plan) { p.Bytes = 16<<20 + 1 }, "bytes: "},
		"negative stride":         {func(p *Plan) { p.Stride = -1 }, "stride: "},
		"stride nought":           {func(p *Plan) { p.Stride = 0 }, ""},
		"append in place":         {func(p *Plan) { p.Kind, p.Stride = Append, 0 }, "stride: 0 is not in the range from 1"},
		"larger than the file":    {func(p *Plan) { p.Bytes = 512001 }, "bytes: 512001 do not fit in a file of 512000"},
		"fill the file":           {func(p *Plan) { p.Bytes, p.Stride = 512000, 0 }, ""},
		"last op leaves the file": {func(p *Plan) { p.Bytes = 513 }, "bytes: 513 do not fit between offset 511488, where op 1000 writes"},
		"no op gets that far":     {func(p *Plan) { p.Bytes, p.Count = 513, 999 }, ""},
		"leaves on the second round": {
			func(p *Plan) { p.Size, p.Stride, p.Bytes, p.Count = 1000, 300, 101, 10 },
			"bytes: 101 do not fit between offset 900, where op 4",
		},
		"append up to its size": {func(p *Plan) { p.Kind, p.Size, p.Count, p.Bytes = Append, 512*9+1, 10, 1 }, ""},
		"append beyond its size": {
			func(p *Plan) { p.Kind, p.Size, p.Count, p.Bytes = Append, 512*9, 10, 1 },
			"size: 10 ops of stride 512 and 1 bytes end at 4609, beyond 4608",
		},
		"append without a size": {func(p *Plan) { p.Kind, p.Size = Append, 0 }, ""},
		"append beyond all": {
			func(p *Plan) { p.Kind, p.Size, p.Stride, p.Count = Append, 0, 1<<20, 1026 },
			"count: 1026 ops",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan()
			c.change(&p)
			err := p.Validate()
			if c.want == "" && err != nil {
				t.Fatalf("refused: %v", err)
			}
			if c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
				t.Fatalf("got %v, want %s…", err, c.want)
			}
		})
	}
}

func TestValidateStamps(t *testing.T) {
	for name, c := range map[string]struct {
		plan  Plan
		valid bool
	}{
		"one round":                       {Plan{Size: 251 * 512, Stride: 512, Bytes: 1, Count: 251}, true},
		"one op more":                     {Plan{Size: 251 * 512, Stride: 512, Bytes: 1, Count: 252}, false},
		"eight bytes tell them apart":     {Plan{Size: 251 * 512, Stride: 512, Bytes: 8, Count: 1000}, true},
		"two bytes too":                   {Plan{Size: 251 * 512, Stride: 512, Bytes: 2, Count: 1000}, true},
		"two bytes, both primes":          {Plan{Size: 251 * 241 * 512, Stride: 512, Bytes: 2, Count: 70000}, false},
		"a prime of another lane":         {Plan{Size: 241 * 512, Stride: 512, Bytes: 1, Count: 1000}, true},
		"every lane has its turn":         {Plan{Size: 241 * 511, Stride: 511, Bytes: 1, Count: 1000}, false},
		"one byte in the next sector":     {Plan{Size: 251 * 1024, Stride: 1024, Bytes: 513, Count: 1000}, false},
		"eight bytes in the next":         {Plan{Size: 251 * 1024, Stride: 1024, Bytes: 520, Count: 1000}, true},
		"same place, 1000 generations":    {Plan{Size: 1, Stride: 0, Bytes: 1, Count: 1000}, true},
		"a thousand rounds":               {Plan{Size: 1000, Stride: 1, Bytes: 1, Count: 1000_000}, true},
		"overlap, 211 generations":        {Plan{Size: 100_000, Stride: 1, Bytes: 4096, Count: 90_000}, true},
		"overlap in one byte, next round": {Plan{Size: 1000, Stride: 3, Bytes: 2, Count: 333}, true},
		"most that is allowed":            {Plan{Size: 1 << 30, Stride: 1, Bytes: 16 << 20, Count: 1000_000}, true},
		"a power of two, many rounds":     {Plan{Size: 1 << 20, Stride: 4096, Bytes: 4096, Count: 1000_000}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.plan
			p.Kind, p.Path, p.Call = Overwrite, "f", Fsync
			begun := time.Now()
			err := p.Validate()
			t.Logf("%v: %v", time.Since(begun), err)
			if (err == nil) != c.valid {
				t.Fatalf("valid is %v, want %v: %v", err == nil, c.valid, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "size: ops ") {
				t.Fatalf("refused for another reason: %v", err)
			}
		})
	}
}

// draw makes small valid plans of every form, many of them with several rounds
// or with ops that overlap.
func draw(t *rapid.T) Plan {
	p := Plan{Path: "f", Call: Fsync, Seed: rapid.Uint64().Draw(t, "seed")}
	p.Kind = rapid.SampledFrom([]Kind{Overwrite, Append}).Draw(t, "kind")
	p.Count = rapid.IntRange(1, 600).Draw(t, "count")
	p.Stride = rapid.Int64Range(0, 40).Draw(t, "stride")
	p.Bytes = rapid.Int64Range(1, 50).Draw(t, "bytes")
	p.Size = rapid.Int64Range(1, 900).Draw(t, "size")
	if p.Kind == Append {
		p.Size = 0
		p.Stride = max(1, p.Stride)
	} else if rapid.Bool().Draw(t, "round") {
		p.Size = max(1, p.Stride) * rapid.OneOf(rapid.Int64Range(1, 20), rapid.SampledFrom([]int64{211, 2 * 223, 227, 251, 300})).Draw(t, "slots")
		p.Bytes = rapid.Int64Range(1, max(1, p.Stride)).Draw(t, "part")
	}
	for p.Validate() != nil { // what an op less may do
		if p.Count--; p.Count < 1 {
			t.Skip("nothing fits")
		}
	}
	return p
}

// naive applies ops 0..k to a file one after another.
func naive(p Plan, k int) []byte {
	file := make([]byte, p.SizeAfter(0))
	for i := range file {
		file[i] = Stamp(p.Seed, int64(i), 0)
	}
	for op := 1; op <= k; op++ {
		e := p.Op(op)
		if grow := e.End() - int64(len(file)); grow > 0 {
			file = append(file, make([]byte, grow)...)
		}
		for off := e.Offset; off < e.End(); off++ {
			file[off] = Stamp(p.Seed, off, op)
		}
	}
	return file
}

func TestContentIsWhatTheOpsWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		k := rapid.IntRange(0, p.Count).Draw(t, "k")
		want := naive(p, k)
		if got := p.SizeAfter(k); got != int64(len(want)) {
			t.Fatalf("%+v: size after %d is %d, want %d", p, k, got, len(want))
		}
		from := rapid.IntRange(0, len(want)).Draw(t, "from")
		n := rapid.IntRange(0, len(want)-from+30).Draw(t, "n") // also beyond the end
		got := bytes.Repeat([]byte{0xee}, n)
		p.Content(k, int64(from), got)
		expect := make([]byte, n)
		copy(expect, want[from:])
		if !bytes.Equal(got, expect) {
			t.Fatalf("%+v: content after %d from %d:\n got %x\nwant %x", p, k, from, got, expect)
		}
	})
}

// TestOpsFitWhereValid holds the arithmetic of Validate against a loop.
func TestOpsFitWhereValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{Kind: Overwrite, Path: "f", Call: None}
		p.Size = rapid.Int64Range(1, 300).Draw(t, "size")
		p.Bytes = rapid.Int64Range(1, p.Size).Draw(t, "bytes")
		p.Stride = rapid.Int64Range(0, 400).Draw(t, "stride")
		p.Count = rapid.IntRange(1, 500).Draw(t, "count")
		beyond := 0
		for k := p.Count; k > 0; k-- {
			if p.Op(k).End() > p.Size {
				beyond = k
			}
		}
		err := p.validExtents()
		if (err != nil) != (beyond > 0) {
			t.Fatalf("%+v: first op beyond the end is %d, yet %v", p, beyond, err)
		}
	})
}
