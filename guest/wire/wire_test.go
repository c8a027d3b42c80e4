package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Frame {
			return Frame{
				Type:    Type(rapid.Uint16().Draw(t, "type")),
				Payload: append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "payload")...),
			}
		})).Draw(t, "frames")
		var b bytes.Buffer
		for _, f := range want {
			if err := Write(&b, f); err != nil {
				t.Fatal(err)
			}
		}
		var got []Frame
		for {
			f, err := Read(&b)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f)
		}
		if d := cmp.Diff(want, got); d != "" && len(want) > 0 {
			t.Fatalf("frames (-want +got):\n%s", d)
		}
	})
}

// TestDamage: no byte of a frame can change unseen, and none can be missing.
func TestDamage(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, Frame{Type: Record, Payload: []byte("power")}); err != nil {
		t.Fatal(err)
	}
	for i := range b.Len() {
		c := bytes.Clone(b.Bytes())
		c[i] ^= 0x10
		if f, err := Read(bytes.NewReader(c)); err == nil {
			t.Errorf("byte %d changed: read %+v", i, f)
		}
		if f, err := Read(bytes.NewReader(b.Bytes()[:i])); err == nil {
			t.Errorf("cut to %d bytes: read %+v", i, f)
		}
	}
}

func TestTooLong(t *testing.T) {
	if err := Write(io.Discard, Frame{Payload: make([]byte, MaxPayload+1)}); err == nil {
		t.Error("a frame above the limit was sent")
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	_ = Send(&b, Hello, Greeting{Release: "6.1", Ledger: "memory"})
	f.Add(b.Bytes())
	f.Add([]byte("1CWP"))
	f.Add([]byte("PWC100\x00\x0000\x00\x000000")) // ends between header and payload
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		for {
			frame, err := Read(r)
			if err == io.EOF {
				return
			}
			if err != nil {
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("error %v is of no known kind", err)
				}
				return
			}
			var out bytes.Buffer
			if err := Write(&out, frame); err != nil || !bytes.Contains(in, out.Bytes()) {
				t.Fatalf("frame of type %d is not what was read: %v", frame.Type, err)
			}
		}
	})
}
