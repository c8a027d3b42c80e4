package ledger

import (
	"fmt"
	"os"
)

// Parse reads the records of a ledger file: records as Encode writes them, one
// after the other.
func Parse(b []byte) ([]Record, error) {
	if len(b)%RecordSize != 0 {
		return nil, fmt.Errorf("read ledger: %d bytes are no whole number of records of %d", len(b), RecordSize)
	}
	out := make([]Record, 0, len(b)/RecordSize)
	for ; len(b) > 0; b = b[RecordSize:] {
		r, err := Decode(b)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(out), err)
		}
		out = append(out, r)
	}
	return out, nil
}

// ReadFile reads a ledger file.
func ReadFile(path string) ([]Record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	r, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", path, err)
	}
	return r, nil
}

// Append adds records to the end of a ledger file.
func Append(f *os.File, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	b := make([]byte, len(records)*RecordSize)
	for i, r := range records {
		r.Encode(b[i*RecordSize:])
	}
	if _, err := f.Write(b); err != nil {
		return fmt.Errorf("append to ledger: %w", err)
	}
	return nil
}
