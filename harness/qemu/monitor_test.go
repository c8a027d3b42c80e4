package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must come; it is no measurement.
const patience = time.Minute

const greetingLine = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "x"}, "capabilities": ["oob"]}}`

// peer plays QEMU's side of a monitor.
type peer struct {
	t    *testing.T
	conn *net.UnixConn
	in   *bufio.Reader
}

// newPeer gives a monitor and its peer, connected, nothing said yet.
func newPeer(t *testing.T, timeout time.Duration) (*Monitor, *peer) {
	t.Helper()
	near, far, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(far)
	far.Close()
	if err != nil {
		t.Fatal(err)
	}
	m := NewMonitor(near, timeout)
	t.Cleanup(func() {
		if err := m.Disconnect(); err != nil {
			t.Error("disconnect:", err)
		}
		conn.Close()
	})
	return m, &peer{t: t, conn: conn.(*net.UnixConn), in: bufio.NewReader(conn)}
}

// connected gives a monitor that is through its handshake.
func connected(t *testing.T, timeout time.Duration) (*Monitor, *peer) {
	t.Helper()
	m, p := newPeer(t, timeout)
	go func() {
		p.say(greetingLine)
		p.answer(p.hear(), `{}`)
	}()
	if err := m.Connect(); err != nil {
		t.Fatal(err)
	}
	return m, p
}

func (p *peer) say(lines ...string) {
	if _, err := io.WriteString(p.conn, strings.Join(lines, "\r\n")+"\r\n"); err != nil {
		p.t.Error("peer cannot write:", err)
	}
}

// command is what the peer hears.
type command struct {
	Execute   string          `json:"execute"`
	Arguments json.RawMessage `json:"arguments"`
	ID        string          `json:"id"`
}

func (p *peer) hear() command {
	var c command
	line, err := p.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c)
	}
	if err != nil {
		p.t.Error("peer cannot read:", err)
	}
	return c
}

func (p *peer) answer(c command, value string) {
	p.say(fmt.Sprintf(`{"return": %s, "id": %q}`, value, c.ID))
}

func TestMonitorHandshakeAmongEvents(t *testing.T) {
	m, p := newPeer(t, patience)
	event := `{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RESUME"}`
	go func() {
		p.say(event, greetingLine, event)
		c := p.hear()
		if c.Execute != "qmp_capabilities" {
			t.Errorf("first command is %q", c.Execute)
		}
		p.say(event)
		p.answer(c, `{}`)
	}()
	if err := m.Connect(); err != nil {
		t.Fatal(err)
	}
	if got := m.Version().String(); got != "7.2.22" {
		t.Errorf("version %q", got)
	}
}

func TestMonitorBigReply(t *testing.T) {
	m, p := connected(t, patience)
	want := strings.Repeat("x", 1<<20)
	go func() { p.answer(p.hear(), `"`+want+`"`) }()
	var got string
	if err := m.Execute(t.Context(), "query-big", nil, &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
}

func TestMonitorEndlessMessage(t *testing.T) {
	m, p := connected(t, patience)
	go func() {
		p.hear()
		chunk := []byte(strings.Repeat("x", 1<<20))
		for {
			if _, err := p.conn.Write(chunk); err != nil {
				return // hung up on, as it must be
			}
		}
	}()
	_, err := m.Run([]byte(`{"execute": "query-endless"}`))
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("got %v", err)
	}
}

func TestMonitorUndrainedEvents(t *testing.T) {
	m, p := connected(t, patience)
	events, err := m.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const total = 10 * eventBuffer
	go func() {
		for i := range total {
			p.say(fmt.Sprintf(`{"event": "TICK", "data": {"n": %d}}`, i))
		}
		p.answer(p.hear(), `{}`)
	}()
	if err := m.Execute(t.Context(), "query-status", nil, nil); err != nil {
		t.Fatal(err)
	}
	if len(events) != eventBuffer {
		t.Fatalf("%d events kept, want %d", len(events), eventBuffer)
	}
	for i := total - eventBuffer; i < total; i++ {
		if e := <-events; e.Data["n"] != float64(i) {
			t.Fatalf("event %v, want the newest from %d on", e.Data["n"], total-eventBuffer)
		}
	}
}

func TestMonitorEventsEndWithContext(t *testing.T) {
	m, _ := connected(t, patience)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := m.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, ok := <-events; ok {
		t.Error("an event came from nowhere")
	}
}

// Replies may come in any order, with events between them: each caller gets its
// own.
func TestMonitorManyCallers(t *testing.T) {
	m, p := connected(t, patience)
	const callers, batch = 64, 16
	go func() {
		for range callers / batch {
			var heard []command
			for range batch {
				heard = append(heard, p.hear())
			}
			rand.Shuffle(batch, func(i, j int) { heard[i], heard[j] = heard[j], heard[i] })
			for _, c := range heard {
				p.say(`{"event": "TICK"}`)
				p.answer(c, string(c.Arguments))
			}
		}
	}()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var got struct{ N int }
			if err := m.Execute(t.Context(), "echo", map[string]int{"N": i}, &got); err != nil {
				t.Error(err)
			}
			if got.N != i {
				t.Errorf("caller %d got the reply for %d", i, got.N)
			}
		})
	}
	wg.Wait()
}

func TestMonitorRefusal(t *testing.T) {
	m, p := connected(t, patience)
	go func() {
		c := p.hear()
		p.say(fmt.Sprintf(`{"id": %q, "error": {"class": "CommandNotFound", "desc": "no such thing"}}`, c.ID))
	}()
	err := m.Execute(t.Context(), "nonsense", nil, nil)
	var refusal *CommandError
	if !errors.As(err, &refusal) || refusal.Class != "CommandNotFound" || refusal.Desc != "no such thing" {
		t.Errorf("got %v", err)
	}
}

func TestMonitorBadCommands(t *testing.T) {
	m, _ := connected(t, patience)
	for _, bad := range []string{``, `{`, `null`, `[1]`, `"execute"`} {
		if _, err := m.Run([]byte(bad)); err == nil {
			t.Errorf("%q was sent", bad)
		}
	}
}

// A command whose time ran out leaves the connection usable, and its late reply
// is nobody else's.
func TestMonitorDeadline(t *testing.T) {
	m, p := connected(t, patience)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan command)
	go func() { heard <- p.hear() }()
	result := make(chan error)
	go func() { result <- m.Execute(ctx, "slow", nil, nil) }()
	late := <-heard
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	go func() {
		p.answer(late, `"late"`)
		p.answer(p.hear(), `"in time"`)
	}()
	var got string
	if err := m.Execute(t.Context(), "fast", nil, &got); err != nil || got != "in time" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestMonitorOwnTimeout(t *testing.T) {
	m, p := newPeer(t, time.Millisecond)
	if err := m.Connect(); !timedOut(err) {
		t.Errorf("connect to a silent peer: %v", err)
	}
	go io.Copy(io.Discard, p.in)
	if _, err := m.Run([]byte(`{"execute": "x"}`)); !timedOut(err) {
		t.Errorf("run with a silent peer: %v", err)
	}
}

// A peer that reads nothing fills the socket; every writer must come back, and
// once half a command is out the connection is given up.
func TestMonitorPeerReadsNothing(t *testing.T) {
	m, _ := newPeer(t, 200*time.Millisecond)
	large := fmt.Appendf(nil, `{"execute": %q}`, strings.Repeat("x", 1<<20))
	for {
		if _, err := m.Run(large); err == nil {
			t.Fatal("nobody read the command, yet it was answered")
		}
		select {
		case <-m.done:
			return
		default: // so slow a machine that nothing got out in time
		}
	}
}

func TestMonitorBrokenPeer(t *testing.T) {
	tests := map[string]struct {
		said string
		want string
	}{
		"garbage":       {"no json at all\n", "no json at all"},
		"cut off":       {`{"return": {}`, errMonitorClosed.Error()},
		"reply to none": {`{"return": {}}` + "\n", "answers no command"},
		"bad event":     {`{"event": "X", "timestamp": 3}` + "\n", "is no event"},
		"end":           {"", errMonitorClosed.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, p := connected(t, patience)
			events, err := m.Events(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				p.hear()
				_, _ = io.WriteString(p.conn, tt.said)
				p.conn.Close()
			}()
			_, err = m.Run([]byte(`{"execute": "query-status"}`))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
			if _, ok := <-events; ok {
				t.Error("an event came from nowhere")
			}
			if _, err := m.Run([]byte(`{"execute": "again"}`)); err == nil {
				t.Error("a broken monitor still runs commands")
			}
			if _, err := m.Events(t.Context()); err == nil {
				t.Error("a broken monitor still gives events")
			}
		})
	}
}

func TestMonitorDisconnectEndsWaiters(t *testing.T) {
	m, p := connected(t, patience)
	result := make(chan error)
	go func() {
		_, err := m.Run([]byte(`{"execute": "slow"}`))
		result <- err
	}()
	p.hear()
	for range 2 {
		if err := m.Disconnect(); err != nil {
			t.Error(err)
		}
	}
	if err := <-result; !errors.Is(err, errMonitorClosed) {
		t.Errorf("got %v", err)
	}
}

func TestMonitorSendsFile(t *testing.T) {
	m, p := connected(t, patience)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		data, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
		n, oob, _, _, err := p.conn.ReadMsgUnix(data, rights)
		if err != nil {
			t.Error(err)
			return
		}
		msgs, err := unix.ParseSocketControlMessage(rights[:oob])
		if err != nil || len(msgs) != 1 {
			t.Errorf("control messages %v, %v", msgs, err)
			return
		}
		fds, err := unix.ParseUnixRights(&msgs[0])
		if err != nil || len(fds) != 1 {
			t.Errorf("descriptors %v, %v", fds, err)
			return
		}
		f := os.NewFile(uintptr(fds[0]), "received")
		_, _ = f.WriteString("through the file")
		f.Close()
		var c command
		if err := json.Unmarshal(data[:n], &c); err != nil {
			t.Error(err)
		}
		p.answer(c, `{}`)
	}()
	err = m.ExecuteWithFile(t.Context(), "getfd", map[string]string{"fdname": "x"}, nil, w)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "through the file" {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzMonitor lets the peer say anything: every command still comes back.
func FuzzMonitor(f *testing.F) {
	f.Add([]byte(greetingLine + "\n" + `{"return": {}, "id": "powercut-1"}` + "\n"))
	f.Add([]byte(`{"event": "X", "data": {"a": [1]}}` + "\n" + `{"id": "powercut-1", "error": {}}` + "\n"))
	f.Add([]byte("\n\r\n{}\nnull\n[]\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		m := NewMonitor(near, patience)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = far.Write(said)
			_ = unix.Shutdown(int(far.Fd()), unix.SHUT_WR)
		})
		_ = m.Connect()
		_, _ = m.Run([]byte(`{"execute": "x"}`))
		<-m.done
		wg.Wait()
		if err := m.Disconnect(); err != nil {
			t.Error(err)
		}
		far.Close()
	})
}
