package explore

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"powercut/guest/workload"
	"powercut/harness/crash"
	"powercut/harness/promise"
	"powercut/harness/verdict"
)

// Store is a file that keeps the outcomes of checks, one a line, so that an exploration
// that ended can go on. A nil Store keeps nothing.
type Store struct {
	lock *os.File // the folder, locked: the file itself is replaced
	file *os.File
	old  []kept // what was in the file
}

// kept is a line of the file.
type kept struct {
	Content  uint64           `json:"content,string"` // see crash.Hasher
	Recovery verdict.Recovery `json:"recovery"`
	Exists   bool             `json:"exists"`
	Size     int64            `json:"size"`
	Rounding int64            `json:"rounding,omitempty"`
	File     []row            `json:"file"`
	// What other states may be decided by it: see outcome.
	Needed []crash.Row `json:"needed"`
	Hash   uint64      `json:"hash,string"`
	Plain  []keptPlain `json:"plain,omitempty"`
	Blind  string      `json:"blind,omitempty"`
	Second string      `json:"second,omitempty"`
	// Of a workload of ops, instead of a file: the tree, and the bytes of its files.
	Tree *promise.Found `json:"tree,omitempty"`
	Data []byte         `json:"data,omitempty"`
}

// keptPlain is some plain blocks of the file.
type keptPlain struct {
	Block  int64             `json:"block"`
	Length int64             `json:"length"`
	Places []workload.Extent `json:"places"`
	Held   uint64            `json:"held,string"`
}

// head is the file's first line: what the outcomes depend on.
type head struct {
	Schema string `json:"schema"`
	Of     string `json:"of"` // kernel, binary, log and disk, as the caller names them
	Fsck   bool   `json:"fsck"`
}

const storeSchema = "powercut-explored/4"

// ErrFsck is an exploration that would go on with a second opinion where there was none, or
// without it where there was.
var ErrFsck = errors.New("it was begun with the other choice of --fsck, and the outcomes of the two differ; go on as it was begun, or begin anew, without --resume")

// ErrInUse says that the folder of a call is being explored.
var ErrInUse = errors.New("another powercut explores it; wait for it, or explore another call")

// OpenStore opens the file at path for a subject that of names, explored with a second
// opinion or without. With resume what is there is kept, if it is of the same subject and
// whole; else, and where nothing is there, it is begun anew. The folder is the store's own
// until Close; that of another is ErrInUse.
func OpenStore(path, of string, fsck, resume bool) (_ *Store, err error) {
	s, begin := &Store{}, head{storeSchema, of, fsck}
	if s.lock, err = lock(filepath.Dir(path)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.lock.Close()
		}
	}()
	if resume {
		if err := s.load(path, begin); err != nil {
			return nil, fmt.Errorf("resume exploration: %w", err)
		}
	}
	if s.file, err = os.Create(path + ".tmp"); err != nil {
		return nil, fmt.Errorf("keep exploration: %w", err)
	}
	err = s.write(begin)
	for _, k := range s.old {
		err = errors.Join(err, s.write(k))
	}
	if err = errors.Join(err, os.Rename(path+".tmp", path)); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("keep exploration: %w", err)
	}
	return s, nil
}

// lock locks a folder, until what it returns is closed. Some network file systems lock no
// folders: there nobody is kept out.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("keep exploration: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, fmt.Errorf("explore %s: %w", dir, ErrInUse)
	}
	return f, nil
}

// load reads what is there. A last line that is torn is left out.
func (s *Store) load(path string, want head) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the exploration before did not come to this call
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n == 1 {
			var h head
			if err := json.Unmarshal(line, &h); err != nil || h.Schema != want.Schema || h.Of != want.Of {
				return fmt.Errorf("%s is of another recording, kernel or powercut (%s), this is %s; begin anew, without --resume", path, h.Of, want.Of)
			}
			if h.Fsck != want.Fsck {
				return fmt.Errorf("%s: %w", path, ErrFsck)
			}
			continue
		}
		var k kept
		if err := json.Unmarshal(line, &k); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		s.old = append(s.old, k)
	}
}

func (s *Store) write(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = s.file.Write(append(b, '\n'))
	}
	return err
}

// maxKept is how many bytes of the files of a tree are kept.
const maxKept = 1 << 20

// add keeps an outcome, if its file follows from the plan, or its tree is no large one: others
// are not kept, and are checked again.
func (s *Store) add(content uint64, o *outcome) error {
	if s == nil || !o.file.planned() || o.tree != nil && len(o.tree.Tree.Data) > maxKept {
		return nil
	}
	k := kept{
		Content: content, Recovery: o.recovery, Exists: o.exists, Size: o.size, Rounding: o.rounding, File: o.file.rows,
		Needed: o.needed, Hash: o.hash, Blind: o.blind, Second: o.second,
	}
	if o.tree != nil {
		k.Tree, k.Data = o.tree, o.tree.Tree.Data
	}
	for _, p := range o.plain {
		k.Plain = append(k.Plain, keptPlain{Block: p.block, Length: p.length, Places: p.places, Held: p.held})
	}
	if err := s.write(k); err != nil {
		return fmt.Errorf("keep exploration: %w", err)
	}
	return nil
}

// Close closes the file, and lets others explore.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.file.Close(), s.lock.Close())
}

// resume takes up outcomes that were kept.
func (e *exploration) resume() {
	if e.options.Store == nil {
		return
	}
	for _, k := range e.options.Store.old {
		e.index.put(k.Content, k.outcome(e.subject.Call.Plan.ReadLimit(), e.trees, e.hasher.Changed), e.hasher)
		e.resumed[k.Content] = true
	}
	e.options.Store.old = nil
}

// outcome is what was kept, of a file of which limit bytes were read at most.
func (k *kept) outcome(limit int64, t *trees, changed func(offset, length int64) []crash.Row) *outcome {
	o := &outcome{
		recovery: k.Recovery, exists: k.Exists, size: k.Size, rounding: k.Rounding, file: file{size: min(k.Size, limit), rows: k.File},
		needed: k.Needed, hash: k.Hash, blind: k.Blind, second: k.Second,
	}
	if k.Tree != nil {
		k.Tree.Tree.Data = k.Data
		t.keep(o, k.Tree)
	}
	for _, p := range k.Plain {
		o.plain = append(o.plain, plain{block: p.Block, length: p.Length, places: p.Places, sectors: sectorsOf(p.Places, changed), held: p.Held})
	}
	o.finish()
	return o
}
