package nbd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestListen(t *testing.T) {
	for _, n := range []int{50, 107, 108, 109, 200, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir := tempFolder(t)
			for n-len(dir)-len("/socket") > 100 {
				dir = filepath.Join(dir, strings.Repeat("d", 80))
			}
			dir = filepath.Join(dir, strings.Repeat("d", n-len(dir)-len("/socket")-1))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "socket")
			if len(path) != n {
				t.Fatalf("path of %d bytes", len(path))
			}
			l, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if want := fs.ModeSocket | 0o600; info.Mode() != want {
				t.Errorf("mode %v, want %v", info.Mode(), want)
			}
			t.Chdir(dir) // the socket's name is short from here
			conn, err := net.Dial("unix", "socket")
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			for range 2 {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket is still there: %v", err)
			}
		})
	}
}

func TestListenRelative(t *testing.T) {
	t.Chdir(tempFolder(t))
	for _, name := range []string{"socket", "@socket"} {
		l, err := Listen(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat("./" + name); err != nil {
			t.Error(err)
		}
		old, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir("/") // must not matter
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		t.Chdir(old)
		if _, err := os.Lstat("./" + name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	}
}

func TestListenErrors(t *testing.T) {
	dir := tempFolder(t)
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	tests := []struct {
		path string
		want error
	}{
		{taken, syscall.EADDRINUSE},
		{filepath.Join(missing, "socket"), syscall.ENOENT},
		{filepath.Join(missing, strings.Repeat("d", 100), "socket"), syscall.ENOENT},
		{filepath.Join(dir, strings.Repeat("s", 107)), syscall.ENAMETOOLONG},
	}
	for _, tt := range tests {
		if _, err := Listen(tt.path); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("%s: error %v, want %v", tt.path, err, tt.want)
		}
	}
	if b, err := os.ReadFile(taken); string(b) != "data" {
		t.Errorf("the file in the way holds %q now, %v", b, err)
	}
}

func TestListenInRemovedFolder(t *testing.T) {
	dir := tempFolder(t)
	l, err := Listen(filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
