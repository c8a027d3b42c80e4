// Package wire is the control channel between harness and guest: frames with a
// check sum over a byte stream (a virtio-serial port).
//
// A frame, little endian: magic u32, type u16, zero u16, length u32, CRC-32C u32
// over the first 12 bytes and the payload, then the payload.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Type says what a frame's payload is.
type Type uint16

// MaxPayload bounds the payload of a frame, in bytes.
const MaxPayload = 1 << 20

const (
	magic      = 0x31435750 // "PWC1"
	headerSize = 16
)

// ErrDamaged is wrapped by every error that is about the bytes themselves.
var ErrDamaged = errors.New("control channel is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Frame is one message.
type Frame struct {
	Type    Type
	Payload []byte
}

// Write sends a frame in one call of w.Write.
func Write(w io.Writer, f Frame) error {
	if len(f.Payload) > MaxPayload {
		return fmt.Errorf("send frame of type %d: %d bytes, at most %d are allowed", f.Type, len(f.Payload), MaxPayload)
	}
	b := make([]byte, headerSize+len(f.Payload))
	le := binary.LittleEndian
	le.PutUint32(b[0:], magic)
	le.PutUint16(b[4:], uint16(f.Type))
	le.PutUint32(b[8:], uint32(len(f.Payload)))
	copy(b[headerSize:], f.Payload)
	le.PutUint32(b[12:], sum(b[:12], f.Payload))
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("send frame of type %d: %w", f.Type, err)
	}
	return nil
}

// Read takes the next frame. At the stream's end between two frames it returns
// io.EOF itself.
func Read(r io.Reader) (Frame, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return Frame{}, io.EOF
		}
		return Frame{}, fmt.Errorf("receive frame: %w", err)
	}
	le := binary.LittleEndian
	if m := le.Uint32(h[0:]); m != magic {
		return Frame{}, fmt.Errorf("receive frame: magic is %#08x, want %#08x: %w", m, uint32(magic), ErrDamaged)
	}
	if z := le.Uint16(h[6:]); z != 0 {
		return Frame{}, fmt.Errorf("receive frame: reserved field is %d: %w", z, ErrDamaged)
	}
	n := le.Uint32(h[8:])
	if n > MaxPayload {
		return Frame{}, fmt.Errorf("receive frame: %d bytes, at most %d are allowed: %w", n, MaxPayload, ErrDamaged)
	}
	f := Frame{Type: Type(le.Uint16(h[4:])), Payload: make([]byte, n)}
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		if err == io.EOF { // an end here is no end between two frames
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, fmt.Errorf("receive frame of type %d: %w", f.Type, err)
	}
	if le.Uint32(h[12:]) != sum(h[:12], f.Payload) {
		return Frame{}, fmt.Errorf("receive frame of type %d: check sum does not match: %w", f.Type, ErrDamaged)
	}
	return f, nil
}

func sum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, payload)
}

// Send writes v as the JSON payload of a frame.
func Send(w io.Writer, t Type, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("send frame of type %d: %w", t, err)
	}
	return Write(w, Frame{Type: t, Payload: b})
}

// Decode reads the JSON payload of f into v.
func (f Frame) Decode(v any) error {
	if err := json.Unmarshal(f.Payload, v); err != nil {
		return fmt.Errorf("read frame of type %d: %w", f.Type, err)
	}
	return nil
}

// Numbers reads the payload of a frame of numbers, 8 bytes each, little endian.
func (f Frame) Numbers() (out []uint64) {
	for b := f.Payload; len(b) >= 8; b = b[8:] {
		out = append(out, binary.LittleEndian.Uint64(b))
	}
	return out
}
