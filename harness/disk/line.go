package disk

import (
	"slices"
	"time"
)

// line finishes the requests that a fault holds back, each at its time, and those
// of one time in the order in which they came. It ends when the world stops.
func (d *Drive) line() {
	var waiting []job
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if len(waiting) > 0 {
			timer.Reset(waiting[0].ready - d.cfg.Log.Now())
		}
		select {
		case <-d.stopped:
			return
		case j := <-d.delayed:
			at, _ := slices.BinarySearchFunc(waiting, j.ready, func(w job, ready time.Duration) int {
				if w.ready <= ready {
					return -1
				}
				return 1
			})
			waiting = slices.Insert(waiting, at, j)
		case <-timer.C:
			now := d.cfg.Log.Now()
			for len(waiting) > 0 && waiting[0].ready <= now {
				d.finish(waiting[0])
				waiting = waiting[1:]
			}
		}
	}
}
