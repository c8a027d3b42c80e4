package trace

import (
	"fmt"
	"strings"
	"time"
)

// String shows the request in one line:
//
//	#12 write FUA 4096+512 data [op 7] during op 7, 1.203ms +8.331ms
//
// that is its number, what was asked, offset and length in bytes, class, detail,
// the op that was running, the time of arrival and the time to the reply.
func (r Request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s", r.Number, r.Op)
	if r.FUA {
		b.WriteString(" FUA")
	}
	if r.NoEffect {
		b.WriteString(" (ignored)")
	}
	if r.Class != Flush || r.Length > 0 {
		fmt.Fprintf(&b, " %d+%d %s", r.Offset, r.Length, r.Class)
	}
	if r.Detail != "" {
		fmt.Fprintf(&b, " [%s]", r.Detail)
	}
	if r.During != Between {
		fmt.Fprintf(&b, " during op %d", r.During)
	}
	fmt.Fprintf(&b, ", %v", r.ArriveAt.Round(time.Microsecond))
	switch {
	case r.Reply < 0:
		b.WriteString(", never answered")
	case r.Errno != 0:
		fmt.Fprintf(&b, " +%v errno %d", (r.ReplyAt - r.ArriveAt).Round(time.Microsecond), r.Errno)
	default:
		fmt.Fprintf(&b, " +%v", (r.ReplyAt - r.ArriveAt).Round(time.Microsecond))
	}
	return b.String()
}
