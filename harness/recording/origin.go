package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"powercut/harness/blocklog"
	"powercut/harness/internal/whole"
	"powercut/harness/logwrites"
)

// The files of a folder with a log that is not a run's.
const (
	originFile = "origin.json"
	logFile    = "block.log"
)

// OriginSchema names the version of Origin.
const OriginSchema = "powercut/import/1"

// Origin says where a log comes from that is not a run's. It is kept in its folder.
type Origin struct {
	Schema string `json:"schema"`
	File   string `json:"file"`           // absolute path of what was imported, or what was recorded
	Base   string `json:"base,omitempty"` // the drive's content at first, absolute path; empty: zeros
	Size   int64  `json:"size"`           // of the drive, bytes
	logwrites.Imported
}

// Import turns the log in file, of dm-log-writes or blklogwrites, into a block log
// in a new folder. The drive had size bytes and was zeros at first, or was as the
// image base, where that is not empty.
//
// Where the log is damaged the folder holds what comes before, and the error is a
// *logwrites.Damage. On any other error there is no folder.
func Import(file, folder, base string, size int64) (_ *Origin, err error) {
	o := &Origin{Schema: OriginSchema, Size: size}
	if o.File, err = filepath.Abs(file); err != nil {
		return nil, fmt.Errorf("import log: %w", err)
	}
	if base != "" {
		if o.Base, o.Size, err = measure(base); err != nil {
			return nil, fmt.Errorf("import log: %w", err)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("import log: %w", err)
	}
	defer f.Close()
	length, err := f.Seek(0, io.SeekEnd) // a device has no size of its own
	if err != nil {
		return nil, fmt.Errorf("import log: %w", err)
	}
	r, err := logwrites.NewReader(f, length)
	if err != nil {
		return nil, fmt.Errorf("import log %s: %w", file, err)
	}
	r.Drive = o.Size
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, fmt.Errorf("import log: %w", err)
	}
	err = o.fill(folder, r)
	var damage *logwrites.Damage
	if err != nil && !errors.As(err, &damage) {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return o, err
}

// fill makes the files of the folder.
func (o *Origin) fill(folder string, r *logwrites.Reader) error {
	w, err := blocklog.Create(filepath.Join(folder, logFile), o.Size)
	if err != nil {
		return err
	}
	found, damage := logwrites.Import(w, r)
	if err := w.Close(); err != nil {
		return fmt.Errorf("import log: %w", err)
	}
	if found == nil {
		return damage
	}
	o.Imported = *found
	if err := whole.WriteJSON(filepath.Join(folder, originFile), o); err != nil {
		return err
	}
	return damage
}

// Keep puts a copy of a complete block log, compressed, into a folder that is there, so that Open
// finds it, with what is known of it.
func Keep(folder, log string, o Origin) error {
	o.Schema = OriginSchema
	in, err := os.Open(log)
	if err != nil {
		return fmt.Errorf("keep block log: %w", err)
	}
	defer in.Close()
	path := filepath.Join(folder, logFile)
	err = whole.Write(path, func(f *os.File) error { _, err := io.Copy(f, in); return err })
	if err == nil {
		_, err = blocklog.Compress(path)
	}
	if err = errors.Join(err, whole.WriteJSON(filepath.Join(folder, originFile), o)); err != nil {
		return fmt.Errorf("keep block log: %w", err)
	}
	return nil
}

// measure returns the absolute path of an image and its size.
func measure(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	return path, size, err
}

func isImport(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, originFile))
	return err == nil
}

func openImport(folder string) (*Recording, error) {
	var o Origin
	b, err := os.ReadFile(filepath.Join(folder, originFile))
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err == nil && o.Schema != OriginSchema {
		err = fmt.Errorf("schema %q, this powercut reads %q", o.Schema, OriginSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("open import: read %s: %w", originFile, err)
	}
	r := &Recording{Folder: folder, Marks: o.Marks, base: o.Base}
	if r.Log, r.Damage, err = blocklog.Salvage(filepath.Join(folder, logFile)); err != nil {
		return nil, err
	}
	r.Cut = len(r.Log.Events)
	return r, nil
}
