package qemu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Waited is how long QEMU's threads have been ready to run and no processor of this
// machine was free for them, added up; of threads that have ended nothing is known. It
// is the second number of /proc/PID/task/TID/schedstat (Linux
// Documentation/scheduler/sched-stats.rst), and fails where the kernel keeps none
// (CONFIG_SCHED_INFO).
func (vm *VM) Waited() (time.Duration, error) {
	return waited(fmt.Sprintf("/proc/%d/task", vm.PID()))
}

func waited(tasks string) (time.Duration, error) {
	files, err := filepath.Glob(filepath.Join(tasks, "*", "schedstat"))
	if err == nil && len(files) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, fmt.Errorf("read how long QEMU waited for a processor: %s: %w", tasks, err)
	}
	var sum time.Duration
	for _, f := range files {
		text, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended
		}
		var ran, wait int64
		if err == nil {
			_, err = fmt.Sscan(string(text), &ran, &wait)
		}
		if err != nil {
			return 0, fmt.Errorf("read how long QEMU waited for a processor: %w", err)
		}
		sum += time.Duration(wait)
	}
	return sum, nil
}
