package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
)

// scratchKind is the folder of what Scratch makes. It holds no entries.
const scratchKind = "scratch"

// Scratch makes an empty folder of mode 0700 for work that leaves nothing
// behind. release removes it, with all that is in it. If this process dies
// before, the next call of Scratch, in whichever process, removes it.
func (c *Cache) Scratch(ctx context.Context) (dir string, release func() error, err error) {
	dir, release, err = c.scratch(ctx)
	return dir, release, c.explain("make scratch folder", err)
}

func (c *Cache) scratch(ctx context.Context) (dir string, release func() error, err error) {
	e := entry{kind: scratchKind, folder: filepath.Join(c.Root, scratchKind), name: rand.Text()}
	if err := os.MkdirAll(e.folder, 0o755); err != nil {
		return "", nil, err
	}
	lock, err := c.lock(ctx, e) // at once, but for a sweep that takes the new file for a dead one's
	if err != nil {
		return "", nil, err
	}
	if err = e.sweep(); err == nil {
		dir, err = os.MkdirTemp(e.folder, tmpPrefix+e.name+"-")
	}
	if err != nil {
		return "", nil, errors.Join(err, lock.drop())
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.drop()) }, nil
}
