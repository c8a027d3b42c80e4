package format

import (
	"fmt"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"powercut/harness/report"
)

// writeJUnit writes a test suite for each run, a test case for each expectation. An
// expectation that was not met is a failure; a run that the harness could not do is
// an error.
func writeJUnit(w io.Writer, r Results) error {
	all := junit.Testsuites{Name: "powercut"}
	elapsed := 0.0
	for _, d := range r.Runs {
		all.AddSuite(suite(d, len(all.Suites)))
		elapsed += d.Elapsed
	}
	for _, b := range r.Broken {
		s := junit.Testsuite{Name: name(b.Scenario, b.Seed), ID: len(all.Suites), Time: seconds(0)}
		s.AddTestcase(junit.Testcase{
			Name: "run", Classname: "powercut." + b.Scenario, Time: seconds(0),
			Error: &junit.Result{Type: "harness", Message: "the harness failed, which says nothing about the file system", Data: report.Clean(b.Err.Error())},
		})
		all.AddSuite(s)
	}
	all.Time = seconds(elapsed)
	if err := all.WriteXML(w); err != nil {
		return fmt.Errorf("write junit: %w", err)
	}
	return nil
}

func suite(d *report.Document, id int) junit.Testsuite {
	s := junit.Testsuite{Name: name(d.Scenario, d.Seed), ID: id, Time: seconds(d.Elapsed)}
	for _, f := range d.Facts() {
		s.AddProperty(f.Name, report.Clean(f.Text))
	}
	s.AddProperty("folder", d.Folder)
	s.AddProperty("again", d.Again())
	for _, e := range d.Expectations {
		c := junit.Testcase{Name: report.Clean(e.Text), Classname: "powercut." + d.Scenario}
		switch {
		case e.Held:
		case e.Busy:
			c.Skipped = &junit.Result{Message: report.Clean("found " + e.Found + "; this machine was too busy to judge a time")}
		default:
			c.Failure = &junit.Result{Type: "expectation", Message: report.Clean("found " + e.Found), Data: strings.Join(evidence(d, e), "\n")}
		}
		s.AddTestcase(c)
	}
	if len(d.Expectations) == 0 {
		s.AddTestcase(junit.Testcase{Name: "run", Classname: "powercut." + d.Scenario})
	}
	return s
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
