package verdict

// Content is the bytes of a file. They need not be in memory all at once: a judge asks for
// a part at a time, mostly in ascending order, and for no more than MaxRange at once.
type Content interface {
	// Size is how many bytes there are.
	Size() int64
	// Range returns the bytes from one offset up to another, both within the size. They are
	// good until it is asked again.
	Range(from, to int64) []byte
}

// MaxRange is the most that a Content is asked for at once, in bytes.
const MaxRange = chunk

// Bytes are a Content that is in memory.
type Bytes []byte

// Size implements Content.
func (b Bytes) Size() int64 { return int64(len(b)) }

// Range implements Content.
func (b Bytes) Range(from, to int64) []byte { return b[from:to] }
