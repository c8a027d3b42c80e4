package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"powercut/images/cache"
)

// CachedKernel is a kernel that Fetch takes, and what the cache has of it.
type CachedKernel struct {
	Spec  string // such as debian:6.1
	Suite string // of Debian, such as bookworm
	// What follows is empty where the cache does not have it.
	Release string
	Package string    // name and version
	Dir     string    // the cache entry
	Bytes   int64     // that it takes on the disk
	Used    time.Time // when it was used last
	Damaged bool      // the cache has it, and it cannot be used; all else is empty
}

// Kernels lists the kernels that Fetch takes.
func Kernels() ([]CachedKernel, error) {
	c, err := cache.Default()
	if err != nil {
		return nil, err
	}
	var list []CachedKernel
	for _, d := range debianKernels() {
		k := CachedKernel{Spec: debianPrefix + d.name, Suite: d.suite}
		if dir, ok := c.Lookup(kernelKind, kernelKey(k.Spec)); ok {
			if err := k.look(dir); err != nil {
				return nil, fmt.Errorf("look at kernel %s: %w", k.Spec, err)
			}
		} else {
			k.Damaged = c.Has(kernelKind, kernelKey(k.Spec))
		}
		list = append(list, k)
	}
	return list, nil
}

// look says what is in a cache entry.
func (k *CachedKernel) look(dir string) error {
	kernel, err := readEntry(dir, k.Spec)
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	k.Release, k.Package, k.Dir, k.Used = kernel.Release, kernel.Package, dir, info.ModTime()
	k.Bytes, err = cache.DiskUsage(dir)
	return err
}

// ErrNoKernel says that the cache does not have a kernel.
var ErrNoKernel = errors.New("the cache does not have it")

// VerifyKernel compares every file of a kernel in the cache with what was fetched. It
// fails with ErrNoKernel, or says what is damaged.
func VerifyKernel(spec string) error {
	if err := CheckSpec(spec); err != nil {
		return err
	}
	c, err := cache.Default()
	if err != nil {
		return err
	}
	c.Verify = true
	err = c.Check(kernelKind, kernelKey(spec))
	if errors.Is(err, fs.ErrNotExist) && !c.Has(kernelKind, kernelKey(spec)) {
		return fmt.Errorf("verify kernel %s: %w", spec, ErrNoKernel)
	}
	if err != nil {
		return fmt.Errorf("verify kernel %s: %w", spec, err)
	}
	return nil
}

// RemoveKernel takes a kernel out of the cache, if it is there.
func RemoveKernel(ctx context.Context, spec string) error {
	if err := CheckSpec(spec); err != nil {
		return err
	}
	c, err := cache.Default()
	if err != nil {
		return err
	}
	return c.Remove(ctx, kernelKind, kernelKey(spec))
}
