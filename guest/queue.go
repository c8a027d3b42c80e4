package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"powercut/guest/wire"
)

// switchQueue changes how the guest's block layer treats requests to each disk.
func switchQueue(q wire.QueueSwitches) error {
	if q == (wire.QueueSwitches{}) {
		return nil
	}
	d, err := theDisks()
	if err != nil {
		return err
	}
	return d.each(func(dev string) error { return switchQueueOf(dev, q) })
}

func switchQueueOf(dev string, q wire.QueueSwitches) error {
	queue := "/sys/block/" + filepath.Base(dev) + "/queue/"
	if q.NoMerges {
		// 2 is no merging at all; 1 still tries the request before (sysfs-block).
		if err := setQueue(queue+"nomerges", "2", "2"); err != nil {
			return err
		}
	}
	if q.Scheduler != "" {
		return setQueue(queue+"scheduler", q.Scheduler, "["+q.Scheduler+"]")
	}
	return nil
}

// setQueue writes a setting, and makes sure that reading it back shows the word
// that tells of it.
func setQueue(file, value, shown string) error {
	if err := os.WriteFile(file, []byte(value), 0); err != nil {
		return fmt.Errorf("write %s to %s: %w", value, file, err)
	}
	now, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// A queue without any choice of schedulers shows the one word bare.
	if words := strings.Fields(string(now)); !slices.Contains(words, shown) && !slices.Equal(words, []string{value}) {
		return fmt.Errorf("write %s to %s: it then reads %q", value, file, strings.TrimSpace(string(now)))
	}
	return nil
}
