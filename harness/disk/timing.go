package disk

import (
	"time"

	"powercut/harness/blocklog"
)

// Timing describes how long a drive takes: Rotating or SolidState. It changes
// nothing of what is volatile and what is durable; that is the fault model's.
type Timing interface {
	// Model returns a drive of size bytes at rest.
	Model(size int64, writeCache bool) Model
}

// Model says when each request is answered. All times are since the block log was
// begun. A model knows no other clock, so that the same requests at the same times
// are always answered at the same times. It is for one goroutine at a time.
type Model interface {
	// Serve returns when a request that arrives now is answered. It is called once
	// for each request, in order of arrival.
	Serve(now time.Duration, e *blocklog.Event) time.Duration
}

// onBus is the time that length bytes take at a rate of bytes a second.
func onBus(length, rate int64) time.Duration {
	return time.Duration(float64(length) / float64(rate) * float64(time.Second))
}

// throughMedia tells whether a request is answered from the media only.
func throughMedia(e *blocklog.Event, writeCache bool) bool { return e.FUA || !writeCache }
