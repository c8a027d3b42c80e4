package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"powercut/guest/ledger"
	"powercut/guest/workload"
	"powercut/harness/blocklog"
)

// home is where the tests' file lies on their drive.
const home = 1 << 20

// second is where the second disk begins, which has the journal, in stories of two.
const second = 8 << 20

// story is a log in the making, told by words such as
//
//	"ack begin data /1 flush /2 ack"
//
// that is: op 0 is acked; op 1 begins and its bytes reach the page cache; request
// 1 writes its sectors and is answered; request 2, a flush, too; op 1 is acked.
type story struct {
	t       testing.TB
	plan    workload.Plan
	file    []byte // the page cache
	events  []blocklog.Event
	payload bytes.Buffer
	records []ledger.Record
	started uint64
	arrived []blocklog.Event // by request
}

func newStory(t testing.TB, p workload.Plan) *story {
	s := &story{t: t, plan: p, file: make([]byte, fileEnd(p))}
	if p.Kind == workload.Overwrite {
		workload.Fill(s.file[:p.Size], p.Seed, 0, 0)
	}
	return s
}

// fileEnd is the size of the largest file that the plan makes, in whole blocks.
func fileEnd(p workload.Plan) int64 {
	end := p.Size
	for k := 1; k <= p.Count; k++ {
		end = max(end, p.Op(k).End())
	}
	return (end + 4095) &^ 4095
}

// log adds an event, one millisecond after the one before it.
func (s *story) log(e blocklog.Event) {
	e.Started, e.Acked = s.started, uint64(len(s.records))
	e.Time = time.Duration(len(s.events)) * time.Millisecond
	s.events = append(s.events, e)
}

func (s *story) arrive(e blocklog.Event) uint64 {
	e.Kind, e.Request = blocklog.Arrive, uint64(len(s.arrived))+1
	s.arrived = append(s.arrived, e)
	s.log(e)
	return e.Request
}

func (s *story) reply(n uint64, errno int32) {
	e := s.arrived[n-1]
	e.Kind, e.Errno, e.DataAt, e.Spoil = blocklog.Reply, errno, 0, blocklog.Spoil{}
	s.log(e)
}

func (s *story) write(offset int64, content []byte, fua, ignored bool) uint64 {
	at := int64(s.payload.Len())
	s.payload.Write(content)
	return s.arrive(blocklog.Event{
		Op: blocklog.Write, Offset: offset, Length: int64(len(content)), DataAt: at, FUA: fua, NoEffect: ignored,
	})
}

// sectors writes sectors of the page cache to their place.
func (s *story) sectors(from, to int64, fua, ignored bool) uint64 {
	return s.write(home+from*sector, s.file[from*sector:to*sector], fua, ignored)
}

func (s *story) begin() {
	s.started++
	e := s.plan.Op(int(s.started))
	workload.Fill(s.file[e.Offset:e.End()], s.plan.Seed, e.Offset, int(s.started))
}

func (s *story) record(errno int32) {
	s.records = append(s.records, ledger.Record{Op: uint64(len(s.records)), Errno: errno, Synced: errno == 0})
}

// extent is what the running op wrote, in sectors.
func (s *story) extent() (from, to int64) {
	if s.started == 0 {
		return 0, (s.plan.Size + sector - 1) / sector
	}
	e := s.plan.Op(int(s.started))
	return e.Offset / sector, (e.End() + sector - 1) / sector
}

// tell plays a script.
func (s *story) tell(script string) *story {
	for _, word := range strings.Fields(script) {
		s.word(word)
	}
	return s
}

func (s *story) word(word string) {
	name, flags, _ := strings.Cut(word, ":")
	fua, ignored := strings.Contains(flags, "fua"), strings.Contains(flags, "ignored")
	from, to := s.extent()
	switch {
	case name == "begin":
		s.begin()
	case name == "ack":
		s.record(0)
	case name == "fail":
		s.record(5)
	case name == "data":
		s.sectors(from, to, fua, ignored)
	case name == "torn": // the data, of which the first sector never reaches the drive
		s.spoil(blocklog.Spoil{Kind: blocklog.Torn, To: sector})
	case name == "rotten": // the data, of which the first sector is stored with a bit flipped
		s.spoil(blocklog.Spoil{Kind: blocklog.Rot, To: sector, Bit: 7})
	case name == "through": // the data, to a drive whose cache is off
		s.sectors(from, to, fua, ignored)
		s.amend(func(e *blocklog.Event) { e.Through = true })
	case name == "failing": // the data, in a request that a fault lets fail
		s.sectors(from, to, fua, ignored)
		s.amend(func(e *blocklog.Event) { e.Errno = 5 })
	case name[0] == '~': // a request is written back
		n, err := strconv.ParseUint(name[1:], 10, 64)
		if err != nil {
			s.t.Fatalf("bad word %q", word)
		}
		s.log(blocklog.Event{Kind: blocklog.Destage, Request: n, Op: blocklog.Write})
	case name == "head": // the first sector only
		s.sectors(from, from+1, fua, ignored)
	case name == "block": // the whole file-system block
		s.sectors(from&^7, (to+7)&^7, fua, ignored)
	case name == "meta":
		s.write(512, bytes.Repeat([]byte("inode..."), 128), fua, ignored)
	case name == "commit":
		s.write(9<<20, journalBlock(blockCommit), fua, ignored)
		if strings.Contains(flags, "torn") {
			s.amend(func(e *blocklog.Event) { e.Spoil = blocklog.Spoil{Kind: blocklog.Torn, To: sector} })
		}
	case name == "journal":
		s.write(second, append(descriptor(1), make([]byte, 4096)...), fua, ignored)
	case name == "copy": // the journal has one of the block in which the file begins
		block := descriptor(1)
		binary.BigEndian.PutUint32(block[headerBytes:], home/4096)
		s.write(second, append(block, make([]byte, 4096)...), fua, ignored)
	case name == "flush":
		e := blocklog.Event{Op: blocklog.Flush, NoEffect: ignored}
		switch { // of one of two disks
		case strings.Contains(flags, "first"):
			e.Length = second
		case strings.Contains(flags, "second"):
			e.Offset, e.Length = second, second
		}
		s.arrive(e)
	case name == "read":
		s.arrive(blocklog.Event{Op: blocklog.Read, Length: 4096})
	case name == "trim":
		s.arrive(blocklog.Event{Op: blocklog.Trim, Length: 4096})
	case name == "zeroes":
		s.arrive(blocklog.Event{Op: blocklog.Zeroes, Length: 4096, FUA: fua})
	case name[0] == '/':
		n, err := strconv.ParseUint(name[1:], 10, 64)
		errno, _ := strconv.Atoi(flags)
		if err != nil || n > uint64(len(s.arrived)) {
			s.t.Fatalf("bad word %q", word)
		}
		s.reply(n, int32(errno))
	default:
		s.t.Fatalf("unknown word %q", word)
	}
}

// spoil writes what data does, damaged on its way.
func (s *story) spoil(d blocklog.Spoil) {
	from, to := s.extent()
	content := bytes.Clone(s.file[from*sector : to*sector])
	d.Flip(content)
	s.write(home+from*sector, content, false, false)
	s.amend(func(e *blocklog.Event) { e.Spoil = d })
}

// amend changes the request that arrived last.
func (s *story) amend(change func(e *blocklog.Event)) {
	change(&s.arrived[len(s.arrived)-1])
	change(&s.events[len(s.events)-1])
}

func (s *story) input() Input {
	return Input{
		Events: s.events, Payload: bytes.NewReader(s.payload.Bytes()), Plan: s.plan,
		Records: s.records, CacheAdvertised: true,
	}
}

func (s *story) read() *Trace {
	s.t.Helper()
	return readInput(s.t, s.input())
}

func readInput(t testing.TB, in Input) *Trace {
	t.Helper()
	tr, err := Read(in)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func journalBlock(kind uint32) []byte {
	block := make([]byte, 4096)
	binary.BigEndian.PutUint32(block, journalMagic)
	binary.BigEndian.PutUint32(block[4:], kind)
	binary.BigEndian.PutUint32(block[8:], 7)
	return block
}

// descriptor is a descriptor block with n tags of 8 bytes, the first followed by
// a UUID as the kernel writes it.
func descriptor(n int) []byte {
	block := journalBlock(blockDescriptor)
	at := headerBytes
	for i := range n {
		binary.BigEndian.PutUint32(block[at:], uint32(100+i))
		flags := uint32(0)
		if i > 0 {
			flags |= tagSameUUID
		}
		if i == n-1 {
			flags |= tagLast
		}
		binary.BigEndian.PutUint32(block[at+4:], flags)
		at += 8
		if i == 0 {
			at += uuidBytes
		}
	}
	return block
}

// lines shows the requests, one a line.
func lines(t *Trace) string {
	var b strings.Builder
	for _, r := range t.Requests {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// overwrites is a plan of single-sector overwrites in a file of 64 sectors.
func overwrites() workload.Plan {
	return workload.Plan{
		Kind: workload.Overwrite, Path: "file", Size: 64 * sector, Count: 100,
		Bytes: sector, Stride: sector, Call: workload.Fdatasync, Seed: 11,
	}
}

// appends is a plan of appends of n bytes.
func appends(n int64, count int, seed uint64) workload.Plan {
	return workload.Plan{
		Kind: workload.Append, Path: "file", Count: count,
		Bytes: n, Stride: n, Call: workload.Fsync, Seed: seed,
	}
}
