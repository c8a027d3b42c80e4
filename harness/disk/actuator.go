package disk

import (
	"container/heap"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spinning is how long before its time the actuator stops to sleep and watches the
// clock. A sleeping thread comes to run some 10 to 60 µs after the time that it has
// set, and Go's own timers, on a thread that waits in epoll(7), up to 1 ms.
const spinning = 60 * time.Microsecond

// actuator holds requests until their time has come.
type actuator struct {
	news atomic.Uint32 // changes with each wake; what the thread sleeps on

	mu      sync.Mutex
	arrived []job // guarded by mu: not yet seen by the thread
}

// submit hands over a request.
func (a *actuator) submit(j job) {
	a.mu.Lock()
	a.arrived = append(a.arrived, j)
	a.mu.Unlock()
	a.wake()
}

// wake ends the thread's sleep.
func (a *actuator) wake() {
	a.news.Add(1)
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&a.news)), futexWakePrivate, 1)
}

// take returns what has arrived.
func (a *actuator) take() []job {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.arrived
	a.arrived = nil
	return list
}

// The operations of futex(2) that are used, within one process.
const (
	futexWaitPrivate = 0 | 128
	futexWakePrivate = 1 | 128
)

// pause sleeps for the time given, or until news is no longer what it was, and may
// end early for no reason. A time below 0 has no end.
func (a *actuator) pause(news uint32, d time.Duration) {
	var limit *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		limit = &t
	}
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&a.news)), futexWaitPrivate, uintptr(news),
		uintptr(unsafe.Pointer(limit)), 0, 0)
}

// punctual makes the calling thread one that wakes when it should: the kernel does
// not put its timers off to join them with others (PR_SET_TIMERSLACK, 50 µs
// otherwise), and runs it before any ordinary thread (SCHED_FIFO, where the user may
// have that: sched(7)). It hardly ever runs, and never for longer than spinning and a
// reply take.
func punctual() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
}

// due is a request with the time of its answer.
type due struct {
	job
	at    time.Duration
	order int // of arrival
}

// schedule is a heap of requests, the next to be answered first.
type schedule []due

func (s schedule) Len() int      { return len(s) }
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)   { *s = append(*s, x.(due)) }
func (s schedule) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].order < s[j].order
}

func (s *schedule) Pop() any {
	old := *s
	last := old[len(old)-1]
	old[len(old)-1] = due{}
	*s = old[:len(old)-1]
	return last
}

// actuate answers requests, each at its time, until the world stops.
func (d *Drive) actuate() {
	runtime.LockOSThread() // for good: the thread ends with this goroutine
	punctual()
	model := d.cfg.Timing.Model(d.cfg.Size, d.cfg.WriteCache)
	var waiting schedule
	for order := 0; ; {
		news := d.actuator.news.Load()
		select {
		case <-d.stopped:
			return
		default:
		}
		for _, j := range d.actuator.take() {
			order++
			heap.Push(&waiting, due{job: j, at: model.Serve(j.event.Time, &j.event), order: order})
		}
		if len(waiting) == 0 {
			d.actuator.pause(news, -1)
			continue
		}
		if d.await(news, waiting[0].at) {
			d.finish(heap.Pop(&waiting).(due).job)
		}
	}
}

// await returns true at the time given, or false as soon as there is news.
func (d *Drive) await(news uint32, at time.Duration) bool {
	if left := at - d.cfg.Log.Now(); left > spinning {
		d.actuator.pause(news, left-spinning)
		return false
	}
	for d.cfg.Log.Now() < at {
		if d.actuator.news.Load() != news {
			return false
		}
	}
	return true
}
