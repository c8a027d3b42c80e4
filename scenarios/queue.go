package scenarios

// Scheduler is an I/O scheduler of Linux, in the words of sysfs (queue/scheduler).
type Scheduler string

// The schedulers.
const (
	NoScheduler Scheduler = "none"
	MQDeadline  Scheduler = "mq-deadline"
	BFQ         Scheduler = "bfq"
	Kyber       Scheduler = "kyber"
)

// Module is the kernel module that the scheduler is in; empty where it needs none.
func (s Scheduler) Module() string {
	switch s {
	case MQDeadline, BFQ:
		return string(s)
	case Kyber:
		return "kyber-iosched"
	}
	return ""
}
