package explore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"powercut/harness/campaign"
)

// Open prepares a call of a run to be explored; what is written meanwhile is below
// folder. Close the subject.
func Open(ctx context.Context, lab *campaign.Lab, past *campaign.Past, call, folder string) (*Subject, error) {
	for _, plan := range past.Calls {
		if string(plan.Call) != call {
			continue
		}
		c, err := past.Call(plan)
		if err != nil {
			return nil, err
		}
		s := &Subject{Call: c, Mount: past.Mount(), Folder: folder}
		if err := s.prepare(ctx, lab, past); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
	return nil, fmt.Errorf("explore: %s has no recording %s", past.Folder, call)
}

func (s *Subject) prepare(ctx context.Context, lab *campaign.Lab, past *campaign.Past) error {
	if s.Call.Damage != nil {
		return fmt.Errorf("explore: %w", s.Call.Damage)
	}
	if err := s.Call.Log.Unpack(s.Folder); err != nil {
		return err
	}
	path, err := past.Base(ctx)
	if err != nil {
		return err
	}
	base, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open formatted disk: %w", err)
	}
	s.Base, s.base = base, base
	if s.Machine, err = lab.Machine(ctx, past); err != nil {
		return err
	}
	s.identity = fmt.Sprintf("%s of %s, %d events, disk %s, kernel %s, agent %s",
		s.Call.Plan.Call, filepath.Base(past.Folder), len(s.Call.Log.Events), past.Document.Filesystem.Digest, s.Machine.Greeting.Release, s.Machine.Agent())
	return nil
}

// Identity names what outcomes of checks depend on, beside the second opinion.
func (s *Subject) Identity() string { return fmt.Sprintf("%016x", xxhash.Sum64String(s.identity)) }

// Close closes log and disk.
func (s *Subject) Close() error {
	err := s.Call.Close()
	if s.base != nil {
		err = errors.Join(err, s.base.Close())
	}
	return err
}
