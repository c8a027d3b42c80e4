package debian

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
	"time"

	"powercut/images/command"
)

const (
	unpackTimeout = 10 * time.Minute
	// maxFile bounds one file in a package, in bytes.
	maxFile = 2 << 30
)

// Field returns one field of a package file ("Version").
func Field(ctx context.Context, deb, field string) (string, error) {
	value, err := command.Command{Path: "dpkg-deb", Args: []string{"--field", deb, field}}.Output(ctx)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", deb, err)
	}
	return strings.TrimSpace(value), nil
}

// Walk calls take for every regular file of a package, with its path without a
// leading "/" or "./", and with "usr/lib/" shortened to "lib/" where a package
// puts kernel modules there. Content not read by take is skipped; nothing is
// unpacked otherwise.
func Walk(ctx context.Context, deb string, take func(name string, mode int64, r io.Reader) error) error {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return fmt.Errorf("find dpkg-deb: install the package dpkg: %w", err)
	}
	unpack := command.Command{Path: "dpkg-deb", Args: []string{"--fsys-tarfile", deb}, Timeout: unpackTimeout}
	err := unpack.Stream(ctx, func(out io.Reader) error { return walkTar(out, take) })
	if err != nil {
		return fmt.Errorf("unpack %s: %w", path.Base(deb), err)
	}
	return nil
}

func walkTar(out io.Reader, take func(name string, mode int64, r io.Reader) error) error {
	archive := tar.NewReader(out)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if h.Size > maxFile {
			return fmt.Errorf("%s has %d bytes, over %d", h.Name, h.Size, maxFile)
		}
		if err := take(cleanName(h.Name), h.Mode, archive); err != nil {
			return err
		}
	}
}

func cleanName(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if rest, ok := strings.CutPrefix(name, "usr/lib/modules/"); ok {
		return "lib/modules/" + rest
	}
	return name
}
