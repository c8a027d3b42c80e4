// Package kbuild builds modules of ours for kernels of Debian, by the kernel's own
// build system (Documentation/kbuild/modules.rst).
//
// What that takes is fetched as packages and kept in the cache as a kit: headers,
// build scripts, and of the source only the folders that variants change. Nothing
// is installed; compiler, make, patch, tar and xz are the host's.
package kbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"powercut/images/cache"
	"powercut/images/command"
	"powercut/images/debian"
	"powercut/images/modules"
)

// Target is the kernel that modules are built for.
type Target struct {
	Release  string // "6.1.0-57-amd64"
	Version  string // of its Debian packages: "6.1.192-3"
	Suite    string // that has them: "bookworm"
	Compiler string // that the kernel was built with: "gcc-12"
}

const (
	kitKind = "module-kit"
	// kitLayout changes when what is kept in a kit changes.
	kitLayout = 1
	// keepKits is the number of kits that stay in the cache.
	keepKits = 4

	sourceFolder = "source"
	tarTimeout   = 15 * time.Minute
)

// kit returns the folder with what builds modules for t: packages, and below
// sourceFolder the kernel's source.
func (t Target) kit(ctx context.Context, c *cache.Cache) (string, error) {
	key := fmt.Sprintf("%s %s layout=%d %s", t.Release, t.Version, kitLayout, strings.Join(folders(), " "))
	dir, err := c.Entry(ctx, kitKind, key, t.fetch)
	if err != nil {
		return "", fmt.Errorf("fetch what builds modules for %s: %w", t.Release, err)
	}
	return dir, c.Prune(ctx, kitKind, keepKits, key)
}

// folders are those of the kernel's source that variants change, each once.
func folders() []string {
	var all []string
	for _, v := range modules.Variants() {
		if v.Folder != "" {
			all = append(all, v.Folder)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fetch fills a cache entry with the kit.
func (t Target) fetch(ctx context.Context, dir string) error {
	state := filepath.Join(dir, "apt")
	if err := os.Mkdir(state, 0o755); err != nil {
		return err
	}
	apt, err := debian.Setup(ctx, state, t.Suite)
	if err != nil {
		return err
	}
	if err := t.fetchHeaders(ctx, apt, dir); err != nil {
		return err
	}
	if err := t.fetchSource(ctx, apt, dir); err != nil {
		return err
	}
	return os.RemoveAll(state)
}

// companion matches the packages that kernel headers depend on and cannot build
// without: the common headers and the build scripts.
var companion = regexp.MustCompile(`linux-(?:headers|kbuild)-[0-9a-z.+~-]+`)

// fetchHeaders puts packages into dir.
func (t Target) fetchHeaders(ctx context.Context, apt *debian.Apt, dir string) error {
	headers, err := t.download(ctx, apt, "linux-headers-"+t.Release)
	if err != nil {
		return err
	}
	needs, err := debian.Field(ctx, headers, "Depends")
	if err != nil {
		return err
	}
	debs := []string{headers}
	for _, name := range companion.FindAllString(needs, -1) {
		deb, err := t.download(ctx, apt, name)
		if err != nil {
			return err
		}
		debs = append(debs, deb)
	}
	for _, deb := range debs {
		if err := os.Rename(deb, filepath.Join(dir, filepath.Base(deb))); err != nil {
			return err
		}
	}
	return nil
}

// download fetches a package in the version of the kernel: of another one, the
// structures that modules share with the kernel may differ.
func (t Target) download(ctx context.Context, apt *debian.Apt, name string) (string, error) {
	deb, err := apt.Download(ctx, name+"="+t.Version)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (if the mirror has a newer one only: remove the kernel from the cache folder, and the newest is fetched)", err)
	}
	return deb, err
}

var series = regexp.MustCompile(`^[0-9]+\.[0-9]+`)

// fetchSource unpacks the folders that are wanted of the kernel's source below
// dir.
func (t Target) fetchSource(ctx context.Context, apt *debian.Apt, dir string) error {
	name := "linux-source-" + series.FindString(t.Release)
	deb, err := t.download(ctx, apt, name)
	if err != nil {
		return err
	}
	unpacked := filepath.Join(dir, "apt", "unpacked")
	target := filepath.Join(dir, sourceFolder)
	if err := errors.Join(unpack(ctx, deb, unpacked), os.Mkdir(target, 0o755)); err != nil {
		return err
	}
	args := []string{
		"--extract", "--xz", "--file", filepath.Join(unpacked, "usr/src", name+".tar.xz"),
		"--directory", target, "--strip-components=1", "--no-same-owner", "--wildcards",
	}
	for _, folder := range folders() {
		args = append(args, "*/"+folder+"/*")
	}
	return command.Command{Path: "tar", Args: args, Timeout: tarTimeout}.Run(ctx)
}

// unpack puts all files of a package below dir.
func unpack(ctx context.Context, deb, dir string) error {
	return command.Command{Path: "dpkg-deb", Args: []string{"--extract", deb, dir}, Timeout: tarTimeout}.Run(ctx)
}
