package qemu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
	"golang.org/x/sys/unix"
)

// Limits of a monitor.
const (
	maxReply    = 16 << 20 // bytes of one message from QEMU
	eventBuffer = 256      // events kept for a subscriber who does not read; the oldest go first
	quoted      = 120      // bytes of a message shown in an error
)

// errMonitorClosed says that the connection was closed, by either side.
var errMonitorClosed = errors.New("monitor closed")

// CommandError is QEMU's refusal of a command.
type CommandError struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

// Error gives QEMU's own words.
func (e *CommandError) Error() string { return e.Desc }

// Monitor speaks the QEMU Machine Protocol over a connected unix socket. It is
// a [qmp.Monitor] that can be used by many goroutines at once: replies find
// their command by id, may be large, and every command has a deadline; events
// nobody reads are dropped and never block anything.
//
// The protocol is QEMU's docs/interop/qmp-spec.
type Monitor struct {
	conn    *net.UnixConn
	timeout time.Duration // limit of one command, above whatever the caller's context says
	version qmp.Version   // set by Connect

	writing sync.Mutex // held while one command goes out, so that commands do not mix

	mu          sync.Mutex             // guards the fields below; taken after writing
	lastID      uint64                 // of the commands sent so far
	waiting     map[string]chan reply  // by id; each channel has room for its one reply
	subscribers map[chan qmp.Event]any // each has room for eventBuffer events
	failure     error                  // why the reader ended; nil while it runs

	greeting chan message  // the reader's only other output; room for one
	done     chan struct{} // closed when the reader has ended
}

var _ qmp.Monitor = (*Monitor)(nil)

// message is anything QEMU may send.
type message struct {
	ID       string          `json:"id"`
	Return   json.RawMessage `json:"return"`
	Error    *CommandError   `json:"error"`
	Event    string          `json:"event"`
	Greeting *struct {
		Version qmp.Version `json:"version"`
	} `json:"QMP"`
}

// reply is the answer to one command.
type reply struct {
	message
	raw []byte // the whole line
}

// NewMonitor makes a monitor of conn, which it then owns, and starts reading.
// Each command may take timeout at most. Call Disconnect in the end.
func NewMonitor(conn *net.UnixConn, timeout time.Duration) *Monitor {
	m := &Monitor{
		conn:        conn,
		timeout:     timeout,
		waiting:     map[string]chan reply{},
		subscribers: map[chan qmp.Event]any{},
		greeting:    make(chan message, 1),
		done:        make(chan struct{}),
	}
	go m.read()
	return m
}

// Connect waits for QEMU's greeting and enters command mode.
func (m *Monitor) Connect() error { return m.ConnectContext(context.Background()) }

// ConnectContext is Connect, ending early with ctx.
func (m *Monitor) ConnectContext(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	select {
	case hello := <-m.greeting:
		m.version = hello.Greeting.Version
	case <-m.done:
		return fmt.Errorf("await greeting: %w", m.reason())
	case <-ctx.Done():
		return fmt.Errorf("await greeting: %w", ctx.Err())
	}
	return m.Execute(ctx, "qmp_capabilities", nil, nil)
}

// Version is QEMU's version as it gave it when connecting.
func (m *Monitor) Version() qmp.Version { return m.version }

// Disconnect closes the connection, fails every command still waiting and ends
// every event stream. It can be called again.
func (m *Monitor) Disconnect() error {
	err := m.conn.Close()
	<-m.done // the reader blocks on nothing but the connection
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Run sends one command, a JSON object with "execute" and perhaps "arguments",
// and returns QEMU's whole reply. The id in it is the monitor's own. A refusal
// is a [*CommandError].
func (m *Monitor) Run(command []byte) ([]byte, error) {
	return m.run(context.Background(), command, nil)
}

// Execute runs the named command with args (nil: none) and decodes what it
// returns into out (nil: ignored).
func (m *Monitor) Execute(ctx context.Context, name string, args, out any) error {
	return m.ExecuteWithFile(ctx, name, args, out, nil)
}

// ExecuteWithFile is Execute with an open file sent along (SCM_RIGHTS), as
// getfd needs it.
func (m *Monitor) ExecuteWithFile(ctx context.Context, name string, args, out any, file *os.File) error {
	command, err := json.Marshal(qmp.Command{Execute: name, Args: args})
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	raw, err := m.run(ctx, command, file)
	if err != nil {
		return fmt.Errorf("run %s: %w", name, err)
	}
	if out == nil {
		return nil
	}
	var answer struct{ Return any }
	answer.Return = out
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("decode reply to %s: %w", name, err)
	}
	return nil
}

// Events subscribes to QEMU's events from now on, until ctx ends or the
// connection does; then the channel is closed. A subscriber that falls behind
// loses the oldest events.
func (m *Monitor) Events(ctx context.Context) (<-chan qmp.Event, error) {
	ch := make(chan qmp.Event, eventBuffer)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return nil, fmt.Errorf("subscribe to events: %w", m.failure)
	}
	m.subscribers[ch] = nil
	context.AfterFunc(ctx, func() { m.unsubscribe(ch) })
	return ch, nil
}

func (m *Monitor) unsubscribe(ch chan qmp.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.subscribers[ch]; ok {
		delete(m.subscribers, ch)
		close(ch)
	}
}

// run sends command under a fresh id and waits for the reply with that id.
func (m *Monitor) run(ctx context.Context, command []byte, file *os.File) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	id, answer, err := m.expect()
	if err != nil {
		return nil, err
	}
	defer m.forget(id)
	line, err := stamp(command, id)
	if err != nil {
		return nil, err
	}
	if err := m.send(ctx, line, file); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			return nil, r.Error
		}
		return r.raw, nil
	case <-m.done:
		return nil, m.reason()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// expect registers a new command and gives its id and where its reply will be.
func (m *Monitor) expect() (string, chan reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return "", nil, m.failure
	}
	m.lastID++
	id := fmt.Sprintf("powercut-%d", m.lastID)
	answer := make(chan reply, 1)
	m.waiting[id] = answer
	return id, answer, nil
}

// forget drops a command: a reply that is still to come will be ignored.
func (m *Monitor) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, id)
}

// stamp puts id into command and makes it one line.
func stamp(command []byte, id string) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(command, &fields); err != nil {
		return nil, fmt.Errorf("read command %.*q: %w", quoted, command, err)
	}
	if fields == nil {
		return nil, fmt.Errorf("read command %.*q: not an object", quoted, command)
	}
	fields["id"] = id
	line, err := json.Marshal(fields)
	return append(line, '\n'), err
}

// send writes line, with file riding on its first byte. A command that went out
// by halves can never be completed, so a failure ends the connection.
func (m *Monitor) send(ctx context.Context, line []byte, file *os.File) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline, _ := ctx.Deadline() // run has set one
	err := m.conn.SetWriteDeadline(deadline)
	if err == nil {
		err = write(m.conn, line, file)
	}
	if err != nil {
		_ = m.conn.Close()
	}
	return err
}

// write is one message, with a descriptor if file is given.
func write(conn *net.UnixConn, line []byte, file *os.File) error {
	if file != nil {
		n, _, err := conn.WriteMsgUnix(line, unix.UnixRights(int(file.Fd())), nil)
		if err != nil {
			return err
		}
		line = line[n:]
	}
	_, err := conn.Write(line)
	return err
}

// read takes messages until the connection ends, then fails whoever waits.
func (m *Monitor) read() {
	defer close(m.done)
	r := bufio.NewReaderSize(m.conn, 64<<10)
	for {
		line, err := readLine(r)
		if err == nil {
			err = m.deliver(line)
		}
		if err != nil {
			m.fail(err)
			return
		}
	}
}

// readLine reads up to the end of a line, which QEMU puts after each message.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: %w", errMonitorClosed, err)
		case len(line) > maxReply:
			return nil, fmt.Errorf("read from qemu: message longer than %d bytes", maxReply)
		}
	}
}

// deliver hands one message to whom it belongs.
func (m *Monitor) deliver(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	var msg message
	if err := json.Unmarshal(line, &msg); err != nil {
		return fmt.Errorf("read from qemu: %.*q is no message: %w", quoted, line, err)
	}
	switch {
	case msg.Event != "":
		return m.publish(line)
	case msg.Greeting != nil:
		select {
		case m.greeting <- msg:
		default: // a second greeting changes nothing
		}
		return nil
	case msg.ID == "":
		return fmt.Errorf("read from qemu: %.*q answers no command", quoted, line)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if answer, ok := m.waiting[msg.ID]; ok {
		delete(m.waiting, msg.ID)
		answer <- reply{message: msg, raw: line}
	}
	return nil
}

// publish gives an event to every subscriber, in place of its oldest one where
// there is no room.
func (m *Monitor) publish(line []byte) error {
	var e qmp.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("read from qemu: %.*q is no event: %w", quoted, line, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for ch := range m.subscribers {
		if len(ch) == cap(ch) {
			select {
			case <-ch:
			default: // just read by its owner
			}
		}
		ch <- e // the reader is the only sender, so there is room
	}
	return nil
}

// fail records why reading ended and ends all event streams.
func (m *Monitor) fail(err error) {
	_ = m.conn.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = err
	for ch := range m.subscribers {
		delete(m.subscribers, ch)
		close(ch)
	}
}

// reason is why reading ended.
func (m *Monitor) reason() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}
