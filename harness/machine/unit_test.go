package machine

import (
	"testing"

	"powercut/harness/nbd"
)

// noted is a drive that keeps what it was asked.
type noted struct {
	size  int64
	asked []nbd.Request
}

func (n *noted) Export() nbd.Export { return nbd.Export{Size: n.size, Flush: true} }
func (n *noted) Close()             {}
func (n *noted) Submit(r *nbd.Request, reply func(error)) {
	n.asked = append(n.asked, nbd.Request{Command: r.Command, Offset: r.Offset, Length: r.Length})
	reply(nil)
}

// TestUnits: a request of each disk comes to its own part of the drive, and a flush is for
// that part. A drive that is one disk is asked as it is.
func TestUnits(t *testing.T) {
	const first, second = 64 << 10, 16 << 10
	d := &noted{size: first + second}
	disks := Spec{DriveSize: first, Second: second}.disks(d)
	if len(disks) != 2 || disks[0].Export().Size != first || disks[1].Export().Size != second || !disks[1].Export().Flush {
		t.Fatalf("the disks are %+v", disks)
	}
	for _, disk := range disks {
		disk.Submit(&nbd.Request{Command: nbd.Write, Offset: 4096, Length: 512}, func(error) {})
		disk.Submit(&nbd.Request{Command: nbd.Flush}, func(error) {})
	}
	want := []nbd.Request{
		{Command: nbd.Write, Offset: 4096, Length: 512},
		{Command: nbd.Flush, Length: first},
		{Command: nbd.Write, Offset: first + 4096, Length: 512},
		{Command: nbd.Flush, Offset: first, Length: second},
	}
	for i, w := range want {
		if got := d.asked[i]; got.Command != w.Command || got.Offset != w.Offset || got.Length != w.Length {
			t.Errorf("request %d is %v %d+%d, want %v %d+%d", i+1, got.Command, got.Offset, got.Length, w.Command, w.Offset, w.Length)
		}
	}
	if one := (Spec{DriveSize: first}).disks(d); len(one) != 1 || one[0] != Drive(d) {
		t.Errorf("one disk is %+v", one)
	}
}
