package report

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func jsonOf(t *testing.T, docs ...*Document) string {
	t.Helper()
	var b bytes.Buffer
	write := func() error { return JSONAll(&b, docs) }
	if len(docs) == 1 {
		write = func() error { return JSON(&b, docs[0]) }
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRead of each kind of path that holds reports.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	one, two := barrierOff(), ext3Overwrite()
	file := put(t, filepath.Join(dir, "one.json"), jsonOf(t, one))
	several := put(t, filepath.Join(dir, "several.json"), jsonOf(t, one, two))
	runs := filepath.Join(dir, "runs")
	for name, text := range map[string]string{"a": jsonOf(t, one), "b": jsonOf(t, two), "c": ""} {
		put(t, filepath.Join(runs, name, Begun), "{}")
		if text != "" {
			put(t, filepath.Join(runs, name, Finished), text)
		}
	}
	put(t, filepath.Join(runs, "other", "file"), "")
	for path, want := range map[string]string{
		file:                                 "barrier-off",
		several:                              "barrier-off, ext3-overwrite",
		filepath.Join(runs, "b"):             "ext3-overwrite in " + filepath.Join(runs, "b"),
		filepath.Join(runs, "c"):             "unfinished " + filepath.Join(runs, "c"),
		runs:                                 "barrier-off in " + filepath.Join(runs, "a") + ", ext3-overwrite in " + filepath.Join(runs, "b") + ", unfinished " + filepath.Join(runs, "c"),
		filepath.Join(dir, "one.json", ".."): "read report: " + filepath.Join(dir) + ": holds no report: it is neither a run folder nor a folder of finished runs",
	} {
		s, err := Read(filepath.Clean(path))
		if got := told(s, err); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func told(s *Stored, err error) string {
	if err != nil {
		return err.Error()
	}
	var parts []string
	for _, d := range s.Runs {
		part := d.Scenario
		if !strings.HasPrefix(d.Folder, "runs/") {
			part += " in " + d.Folder
		}
		parts = append(parts, part)
	}
	for _, u := range s.Unfinished {
		parts = append(parts, "unfinished "+u)
	}
	return strings.Join(parts, ", ")
}

// TestReadErrors: each names the file and, where it can, the line.
func TestReadErrors(t *testing.T) {
	good := jsonOf(t, barrierOff())
	for name, tt := range map[string]struct{ text, want string }{
		"no JSON":      {"{\n\n x", ":3: invalid character 'x'"},
		"cut short":    {good[:len(good)/2], "unexpected end of JSON input"},
		"wrong type":   {strings.Replace(good, `"seed": 1`, `"seed": "1`, 1), "invalid character"},
		"text for int": {strings.Replace(good, `"lost": 1,`, `"lost": "1",`, 1), "is a string, and should be a int"},
		"old":          {strings.Replace(good, Schema, "powercut/run/0", 1), `:2: its schema is "powercut/run/0"; this powercut reads "powercut/run/1"`},
		"none":         {`{"runs": []}`, ": has no schema"},
		"mixed":        {strings.Replace(jsonOf(t, barrierOff(), barrierOff()), Schema, "x", 1), "holds a run whose schema"},
		"list":         {`[1]`, ":1: "},
	} {
		t.Run(name, func(t *testing.T) {
			path := put(t, filepath.Join(t.TempDir(), "r.json"), tt.text)
			_, err := Read(path)
			var bad *ReadError
			if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "read report: "+path) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "nowhere")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
