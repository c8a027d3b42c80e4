package disk

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"powercut/harness/punctual"
)

// spinning is how long before its time the actuator stops to sleep and watches the
// clock. A sleeping thread comes to run some 20 to 60 µs after the time that it has
// set, on a virtual machine up to 100 µs. Go's own timers are 0.1 to 1 ms late, for they
// wait in epoll_wait(2), which counts milliseconds; and on a busy machine both are late
// by tens of milliseconds now and then, unless the thread comes before others.
const spinning = 150 * time.Microsecond

// actuator holds requests until their time has come.
type actuator struct {
	news atomic.Uint32 // changes with each wake; what the thread sleeps on

	mu      sync.Mutex
	model   Model    // guarded by mu; nil: only faults take time
	waiting schedule // guarded by mu
	arrived int      // guarded by mu: how many there have been
}

// submit asks the model about a request, and adds for how long a fault holds it back. One whose time has nearly come is not worth
// another thread: it is left to the caller, who is told that time.
func (a *actuator) submit(j job, now func() time.Duration) (at time.Duration, soon bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arrived++
	at = j.ready
	if a.model != nil {
		// Not before ready either: another request's fault may hold this one back.
		at = max(at, a.model.Serve(j.event.Time, &j.event)+j.held)
	}
	if at-now() <= spinning {
		return at, true
	}
	heap.Push(&a.waiting, due{job: j, at: at, order: a.arrived})
	if a.waiting[0].order == a.arrived {
		a.wake()
	}
	return at, false
}

// next takes the request out whose time has come, or else tells the time of the next
// one; false where there is none.
func (a *actuator) next(now time.Duration) (j job, ready bool, at time.Duration, some bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		return job{}, false, 0, false
	}
	if at = a.waiting[0].at; at > now {
		return job{}, false, at, true
	}
	return heap.Pop(&a.waiting).(due).job, true, at, true
}

// wake ends the thread's sleep.
func (a *actuator) wake() {
	a.news.Add(1)
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&a.news)), futexWakePrivate, 1)
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
	punctual.Thread()
	for a := d.actuator; ; {
		news := a.news.Load()
		select {
		case <-d.stopped:
			return
		default:
		}
		j, ready, at, some := a.next(d.cfg.Log.Now())
		switch left := at - d.cfg.Log.Now(); {
		case ready:
			d.finish(j)
		case !some:
			a.pause(news, -1)
		case left > spinning:
			a.pause(news, left-spinning)
		default:
			for d.cfg.Log.Now() < at && a.news.Load() == news {
			}
		}
	}
}
