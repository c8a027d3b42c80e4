package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Bounds of the handshake.
const (
	handshakeTimeout = 30 * time.Second
	maxOptions       = 64
	// maxOption is the longest option data that is looked at, in bytes. An
	// export name has at most 4096.
	maxOption = 8 << 10
)

// errDone says that the client ended the connection in the handshake, in good
// order.
var errDone = errors.New("handshake ended by the client")

// handshake negotiates until the client asks for the transmission phase. It
// returns errDone if the client wants no more.
func (s *session) handshake() error {
	if err := s.conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return fmt.Errorf("set handshake deadline: %w", err)
	}
	flags, err := s.greet()
	if err != nil {
		return err
	}
	for range maxOptions {
		ready, err := s.option(flags)
		if err != nil {
			return err
		}
		if ready {
			return s.conn.SetDeadline(time.Time{})
		}
	}
	return fmt.Errorf("negotiate: more than %d options", maxOptions)
}

// greet exchanges magic numbers and returns the client's flags.
func (s *session) greet() (uint32, error) {
	b := binary.BigEndian.AppendUint64(nil, greetingMagic)
	b = binary.BigEndian.AppendUint64(b, optionMagic)
	b = binary.BigEndian.AppendUint16(b, handshakeFixedNewstyle|handshakeNoZeroes)
	if _, err := s.conn.Write(b); err != nil {
		return 0, fmt.Errorf("greet client: %w", err)
	}
	var in [4]byte
	if err := s.readFull(in[:]); err != nil {
		return 0, fmt.Errorf("read client flags: %w", err)
	}
	flags := binary.BigEndian.Uint32(in[:])
	if flags&^(handshakeFixedNewstyle|handshakeNoZeroes) != 0 {
		return 0, fmt.Errorf("read client flags: unknown flags %#x", flags)
	}
	return flags, nil
}

// option reads and answers one option. ready says that the transmission phase
// begins.
func (s *session) option(flags uint32) (ready bool, err error) {
	var in [16]byte
	if err := s.readFull(in[:]); err != nil {
		return false, fmt.Errorf("read option: %w", err)
	}
	if m := binary.BigEndian.Uint64(in[:]); m != optionMagic {
		return false, fmt.Errorf("read option: bad magic %#x", m)
	}
	opt, length := binary.BigEndian.Uint32(in[8:]), binary.BigEndian.Uint32(in[12:])
	if opt != optExportName && flags&handshakeFixedNewstyle == 0 {
		return false, fmt.Errorf("read option %d: the client does not speak fixed newstyle", opt)
	}
	if length > maxOption {
		return false, s.refuseLong(opt, length)
	}
	data := make([]byte, length)
	if err := s.readFull(data); err != nil {
		return false, fmt.Errorf("read data of option %d: %w", opt, midMessage(err))
	}
	return s.answer(opt, data, flags)
}

// answer answers one option that was read whole.
func (s *session) answer(opt uint32, data []byte, flags uint32) (ready bool, err error) {
	switch opt {
	case optExportName:
		return true, s.exportName(string(data), flags)
	case optAbort:
		if err := s.optionReply(opt, repAck, nil); err != nil {
			return false, err
		}
		return false, errDone
	case optList:
		return false, s.list(data)
	case optInfo, optGo:
		ok, err := s.info(opt, data)
		return ok && opt == optGo, err
	}
	return false, s.optionReply(opt, repErrUnsup, nil)
}

// refuseLong skips the data of an option that is too long to be looked at.
func (s *session) refuseLong(opt, length uint32) error {
	if opt == optExportName {
		return fmt.Errorf("read option: export name of %d bytes", length) // this option has no error reply
	}
	if err := s.discard(length); err != nil {
		return fmt.Errorf("skip data of option %d: %w", opt, err)
	}
	return s.optionReply(opt, repErrTooBig, nil)
}

// exportName answers the oldest way to enter the transmission phase. It can
// tell neither block sizes nor errors.
func (s *session) exportName(name string, flags uint32) error {
	if name != "" {
		return fmt.Errorf("open export %q: only the default export (no name) is served", name)
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(s.export.Size))
	b = binary.BigEndian.AppendUint16(b, s.export.transmissionFlags())
	if flags&handshakeNoZeroes == 0 {
		b = append(b, make([]byte, 124)...)
	}
	if _, err := s.conn.Write(b); err != nil {
		return fmt.Errorf("answer export name: %w", err)
	}
	return nil
}

// list names the one export.
func (s *session) list(data []byte) error {
	if len(data) != 0 {
		return s.optionReply(optList, repErrInvalid, nil)
	}
	if err := s.optionReply(optList, repServer, make([]byte, 4)); err != nil { // a name of length zero
		return err
	}
	return s.optionReply(optList, repAck, nil)
}

// info answers NBD_OPT_INFO and NBD_OPT_GO. Size and block sizes are always
// told, whatever the client asks for: they hold for it in any case. ok says
// that the export was found.
func (s *session) info(opt uint32, data []byte) (ok bool, err error) {
	name, valid := parseInfo(data)
	if !valid {
		return false, s.optionReply(opt, repErrInvalid, nil)
	}
	if name != "" {
		return false, s.optionReply(opt, repErrUnknown, []byte("only the default export (no name) is served"))
	}
	e := s.export
	b := binary.BigEndian.AppendUint16(nil, infoExport)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Size))
	b = binary.BigEndian.AppendUint16(b, e.transmissionFlags())
	if err := s.optionReply(opt, repInfo, b); err != nil {
		return false, err
	}
	b = binary.BigEndian.AppendUint16(b[:0], infoBlockSize)
	b = binary.BigEndian.AppendUint32(b, e.MinBlock)
	b = binary.BigEndian.AppendUint32(b, e.PreferredBlock)
	b = binary.BigEndian.AppendUint32(b, e.MaxBlock)
	if err := s.optionReply(opt, repInfo, b); err != nil {
		return false, err
	}
	return true, s.optionReply(opt, repAck, nil)
}

// parseInfo returns the export name in the data of NBD_OPT_INFO or NBD_OPT_GO:
// a 32-bit length, the name, a 16-bit count, and that many 16-bit kinds of
// information.
func parseInfo(data []byte) (name string, ok bool) {
	if len(data) < 6 {
		return "", false
	}
	n, rest := uint64(binary.BigEndian.Uint32(data)), data[4:]
	if n > uint64(len(rest)-2) {
		return "", false
	}
	name, rest = string(rest[:n]), rest[n:]
	kinds := int(binary.BigEndian.Uint16(rest))
	return name, len(rest) == 2+2*kinds
}

// optionReply sends one reply to an option.
func (s *session) optionReply(opt, kind uint32, data []byte) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 20+len(data)), optionReplyMagic)
	b = binary.BigEndian.AppendUint32(b, opt)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	if _, err := s.conn.Write(append(b, data...)); err != nil {
		return fmt.Errorf("answer option %d: %w", opt, err)
	}
	return nil
}

// readFull fills b. The error is io.EOF, or that of a reset connection, only if
// there was nothing to read at all.
func (s *session) readFull(b []byte) error {
	n, err := io.ReadFull(s.in, b)
	if n > 0 {
		err = midMessage(err)
	}
	return err
}

// discard skips n bytes of a message's payload.
func (s *session) discard(n uint32) error {
	_, err := io.CopyN(io.Discard, s.in, int64(n))
	return midMessage(err)
}
