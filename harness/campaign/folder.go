package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"powercut/guest/workload"
	"powercut/harness/report"
	"powercut/scenarios"
)

// What a run folder holds: scenarioFile and runFile from before the first guest,
// and at the end reportFile and tableFile; and for each sync call a folder with
// the files below. The recovery's folder has a console and a block log of its own.
const (
	scenarioFile = "scenario.yaml" // as resolved, every default written out
	runFile      = "run.json"      // the document as far as it is known before the run
	reportFile   = "report.json"
	tableFile    = "report.txt"

	logFile        = "block.log" // at the end block.log.zst, which blocklog.Open finds by this name
	ledgerFile     = "ledger"
	cutFile        = "cut.json"
	survivorsFile  = "survivors" // the recovered file
	verdictFile    = "verdict.json"
	recoveryFolder = "recovery"

	// BaseFile is the formatted disk. Run folders are without it, and those that come of
	// bundles have it.
	BaseFile = "base.img"

	// QEMULogFile is in the format of dm-log-writes, and there where the Lab asked
	// for it.
	QEMULogFile = "qemu.log"
)

// begin makes the run folder and returns the document, without any result.
func (r *run) begin(at time.Time) (_ *report.Document, err error) {
	if r.folder, err = r.lab.Folder(r.scenario.Name, r.seed, at); err != nil {
		return nil, err
	}
	text, err := r.scenario.Marshal()
	if err != nil {
		return nil, fmt.Errorf("keep scenario: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.folder, scenarioFile), text, 0o644); err != nil {
		return nil, fmt.Errorf("keep scenario: %w", err)
	}
	doc := r.document()
	return doc, writeJSON(filepath.Join(r.folder, runFile), doc)
}

// Folder makes a folder for what a scenario of that name leaves, which no other run has.
func (l *Lab) Folder(scenario string, seed uint64, at time.Time) (string, error) {
	runs, err := filepath.Abs(l.Runs)
	if err != nil {
		return "", fmt.Errorf("make run folder: %w", err)
	}
	if err := os.MkdirAll(runs, 0o755); err != nil {
		return "", fmt.Errorf("make run folder: %w", err)
	}
	name := fmt.Sprintf("%s-%s-%d", at.UTC().Format("20060102-150405"), scenario, seed)
	folder := filepath.Join(runs, name)
	for n := 2; ; n++ {
		err := os.Mkdir(folder, 0o755)
		if !errors.Is(err, os.ErrExist) {
			if err != nil {
				return "", fmt.Errorf("make run folder: %w", err)
			}
			return folder, nil
		}
		folder = filepath.Join(runs, fmt.Sprintf("%s-%d", name, n))
	}
}

// document says what is known before anything has run.
func (r *run) document() *report.Document {
	s := r.scenario
	ledger := report.LedgerMemory
	if r.serial() {
		ledger = report.LedgerSerial
	}
	doc := &report.Document{
		Schema: report.Schema, Scenario: s.Name, About: s.About, Seed: r.seed, Folder: r.folder,
		Machine: report.Machine{
			Kernel: r.kernelName(), Release: r.machine.Greeting.Release, QEMU: r.machine.Version,
			KernelID: r.machine.Spec.Kernel.ID, Package: r.machine.Spec.Kernel.Package, ModulesFrom: r.lab.Modules,
			Loaded: r.machine.Loads, Params: r.lab.Params,
			Accelerator: string(r.machine.Choice.Accel), Reason: r.machine.Choice.Reason,
			Ledger: ledger, MemoryMiB: int(s.Guest.Memory >> 20),
		},
		Filesystem: report.Filesystem{
			Type: string(s.Filesystem.Type), Bytes: int64(s.Filesystem.Size), ExternalJournal: int64(s.Filesystem.ExternalJournal), Mkfs: s.Filesystem.Mkfs, Mount: s.Filesystem.Mount, Recovery: s.Filesystem.Recovery, Digest: r.digest,
		},
		Drive: report.Drive{
			Bus: string(s.Drive.Bus), Backend: string(s.Drive.Backend), Format: string(s.Drive.Format), AIO: string(s.Drive.AIO), Cache: string(s.Drive.Cache), WriteCache: s.Drive.Volatile(), Told: s.Drive.WriteCache,
			GuestCache: string(s.Guest.WriteCache), HdparmW: string(s.Guest.HdparmW), NoMerges: s.Guest.NoMerges == scenarios.On, Scheduler: string(s.Guest.Scheduler), Timing: s.Drive.Timing.String(), AtCut: string(s.AtCut),
		},
		Workload: report.Workload{
			Kind: string(s.Workload.Kind), Size: int64(s.Workload.Size), Count: s.Workload.Count,
			Bytes: int64(s.Workload.Bytes), Stride: int64(s.Workload.Stride), Observers: s.Workload.Observers,
			Allocate: string(s.Workload.Allocate), Threads: s.Workload.Threads, Gap: float64(s.Workload.Gap) / float64(time.Millisecond),
			Chunk: int64(s.Workload.Chunk), Sync: s.Plans(r.seed)[0].Sync,
		},
		Calls: []report.Call{},
	}
	for _, o := range s.Workload.Ops {
		doc.Workload.Ops = append(doc.Workload.Ops, o.String())
	}
	doc.Drive.Revolution = float64(s.Drive.Timing.Revolution()) / float64(time.Millisecond)
	if f := s.Figures; f.Of != "" {
		doc.Figures = &report.Published{Of: f.Of, Per: f.Ops(), Why: f.Why}
	}
	for _, m := range r.machine.Spec.Kernel.Replaced {
		doc.Machine.Modules = append(doc.Machine.Modules, report.Module{Name: m.Module, Variant: m.Variant, Path: m.Path, BuildID: m.BuildID})
	}
	if l := s.Workload.Load; l.Kind != "" {
		doc.Workload.Load = fmt.Sprintf("%d readers of %s in %s", l.Readers, l.Size, map[workload.LoadKind]string{workload.Sequential: "one file each", workload.ManyFiles: "many files"}[l.Kind])
	}
	if s.Matrix.Of != "" {
		doc.Matrix = &report.Matrix{Of: s.Matrix.Of, Cell: s.Matrix.Cell}
		for _, c := range s.Matrix.Compare {
			doc.Matrix.Compare = append(doc.Matrix.Compare, c.String())
		}
	}
	for _, f := range s.Drive.Faults {
		doc.Drive.Faults = append(doc.Drive.Faults, f.String())
	}
	return doc
}

// finish keeps the reports.
func (r *run) finish(doc *report.Document) error {
	if err := writeJSON(filepath.Join(r.folder, reportFile), doc); err != nil {
		return err
	}
	var table strings.Builder
	if err := report.Table(&table, doc, report.Options{}); err != nil {
		return fmt.Errorf("keep report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.folder, tableFile), []byte(table.String()), 0o644); err != nil {
		return fmt.Errorf("keep report: %w", err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
