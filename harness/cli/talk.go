package cli

import (
	"fmt"
	"io"
	"log/slog"
	"sync"

	"powercut/harness/report"
)

// talkFlags say what is told on standard error while a command is at work.
type talkFlags struct {
	Verbose   bool   `short:"v" help:"Tell on standard error what is being done, one line each."`
	LogFormat string `help:"What is told on standard error: text, or JSON objects, one a line: errors, runs and, with --verbose, each stage." enum:"text,json" default:"text" placeholder:"FORMAT"`
}

// talk is how a command tells what it does. Its lines and the line of a progress bar
// keep out of each other's way.
type talk struct {
	*slog.Logger
	out  *relay
	json bool
	bar  bool // a progress bar may be drawn
}

// relay passes whole lines on to a writer that changes.
type relay struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (r *relay) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.w.Write(p)
}

func (r *relay) to(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.w = w
}

func newTalk(f talkFlags, s Streams) *talk {
	t := &talk{out: &relay{w: s.Err}, json: f.LogFormat == "json", bar: isTerminal(s.Err)}
	o := &slog.HandlerOptions{Level: slog.LevelWarn}
	if f.Verbose {
		o.Level = slog.LevelDebug
	}
	if !t.json {
		t.Logger = slog.New(slog.NewTextHandler(t.out, o))
		return t
	}
	if !f.Verbose {
		o.Level = slog.LevelInfo
	}
	t.Logger, t.bar = slog.New(slog.NewJSONHandler(t.out, o)), false
	return t
}

// begin starts to show progress. The caller ends it with Done.
func (t *talk) begin(s Streams) *stages {
	p := report.NewProgress(s.Err, t.bar)
	t.out.to(p)
	return &stages{Progress: p, talk: t, after: s.Err}
}

// stages is a progress bar whose stages are told as well.
type stages struct {
	*report.Progress
	talk  *talk
	after io.Writer
}

// Stage begins a stage.
func (s *stages) Stage(text string, total int) {
	s.talk.Debug("stage", "stage", text, "steps", total)
	s.Progress.Stage(text, total)
}

// Done ends the progress bar.
func (s *stages) Done() {
	s.Progress.Done()
	s.talk.out.to(s.after)
}

// fail tells of the end of a command that failed.
func (t *talk) fail(what string, err error) {
	switch {
	case t.json && err != nil:
		t.Error(or(what, "wrong usage"), "error", err.Error())
	case t.json:
		t.Error(what)
	case err == nil:
		fmt.Fprintln(t.out, "powercut: "+what)
	case what == "":
		fmt.Fprintf(t.out, "powercut: %v\n", err)
	default:
		fmt.Fprintf(t.out, "powercut: %s: %v\n", what, err)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
