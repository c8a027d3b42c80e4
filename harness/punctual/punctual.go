// Package punctual makes threads that wake when they should.
package punctual

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Thread binds the calling goroutine to a thread of its own that is punctual, and that
// ends with the goroutine. The kernel does not put the thread's timers off to join
// them with others (PR_SET_TIMERSLACK, 50 µs otherwise), and runs it before any
// ordinary thread (SCHED_FIFO, where the user may have that: sched(7)). Such a thread
// has to sleep nearly always.
func Thread() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
}
