package qemu

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A template that is not what was saved is never run, whatever is wrong with
// it, and says so.
func TestTemplateDamaged(t *testing.T) {
	good := testFork(t)
	tests := map[string]func(t *testing.T, dir string, cfg *Config){
		"nothing there":     func(t *testing.T, dir string, _ *Config) { must(t, os.RemoveAll(dir)) },
		"no manifest":       func(t *testing.T, dir string, _ *Config) { must(t, os.Remove(filepath.Join(dir, manifestName))) },
		"no memory":         func(t *testing.T, dir string, _ *Config) { must(t, os.Remove(filepath.Join(dir, ramName))) },
		"no state":          func(t *testing.T, dir string, _ *Config) { must(t, os.Remove(filepath.Join(dir, stateName))) },
		"empty manifest":    func(t *testing.T, dir string, _ *Config) { must(t, os.Truncate(filepath.Join(dir, manifestName), 0)) },
		"cut manifest":      func(t *testing.T, dir string, _ *Config) { must(t, os.Truncate(filepath.Join(dir, manifestName), 100)) },
		"empty memory":      func(t *testing.T, dir string, _ *Config) { must(t, os.Truncate(filepath.Join(dir, ramName), 0)) },
		"cut state":         func(t *testing.T, dir string, _ *Config) { must(t, os.Truncate(filepath.Join(dir, stateName), 1000)) },
		"bit in the memory": func(t *testing.T, dir string, _ *Config) { flip(t, filepath.Join(dir, ramName), 16<<20) },
		"bit in the state":  func(t *testing.T, dir string, _ *Config) { flip(t, filepath.Join(dir, stateName), 1000) },
		"extent left out": func(t *testing.T, dir string, _ *Config) {
			edit(t, dir, false, func(m *manifest) { m.Extents = m.Extents[1:] })
		},
		"extent outside": func(t *testing.T, dir string, _ *Config) {
			edit(t, dir, true, func(m *manifest) { m.Extents[0].Offset = 1 << 40 })
		},
		"later format": func(t *testing.T, dir string, _ *Config) {
			edit(t, dir, true, func(m *manifest) { m.Format++ })
		},
		"other qemu": func(t *testing.T, dir string, _ *Config) {
			edit(t, dir, true, func(m *manifest) { m.QEMU = "6.0.0" })
		},
		// Says that it is of a machine with one device more, and so gets
		// past the identity: QEMU itself must refuse the state.
		"state of another machine": func(t *testing.T, dir string, cfg *Config) {
			cfg.Devices = []Device{Raw{Arguments: []string{"-device", "virtio-rng-pci"}}}
			edit(t, dir, true, func(m *manifest) { m.Machine = cfg.identity() })
		},
		"other memory":  func(_ *testing.T, _ string, cfg *Config) { cfg.Memory = 2 * DefaultMemory },
		"other cmdline": func(_ *testing.T, _ string, cfg *Config) { cfg.Cmdline = []string{"debug"} },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := good
			cfg.Dir = t.TempDir()
			cfg.Template = copyTemplate(t, good.Template)
			damage(t, cfg.Template, &cfg)
			vm, err := Start(t.Context(), cfg)
			if err == nil {
				vm.Close()
			}
			if !errors.Is(err, ErrTemplateDamaged) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// flip changes one byte of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, overwrite(path, at, data[at]^0x10))
}

// edit changes the manifest, and its own hash too if that is to agree again.
func edit(t *testing.T, dir string, agree bool, change func(*manifest)) {
	t.Helper()
	path := filepath.Join(dir, manifestName)
	data, err := os.ReadFile(path)
	must(t, err)
	var m manifest
	must(t, json.Unmarshal(data, &m))
	change(&m)
	if agree {
		must(t, m.write(dir))
		return
	}
	data, err = json.Marshal(m)
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
}

// copyTemplate copies a template, so that it can be damaged.
func copyTemplate(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// A Save that fails leaves no template behind.
func TestSaveFails(t *testing.T) {
	vm := start(t, testFork(t))
	dir := filepath.Join(t.TempDir(), "missing")
	err := Save(t.Context(), vm, dir)
	var failure *Error
	if !errors.As(err, &failure) || !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(failure.Summary(), "save template: ") {
		t.Errorf("got %v", err)
	}
	must(t, vm.Kill())
	if err := Save(t.Context(), vm, t.TempDir()); !errors.Is(err, ErrExited) {
		t.Errorf("save of a dead machine: %v", err)
	}
}
