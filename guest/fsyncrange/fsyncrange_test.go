package fsyncrange

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"
)

// The C compiler says what the module's header means, and Go means the same.
func TestHeader(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed")
	}
	header, err := filepath.Abs("../../images/modules/fsync_range/fsync_range.h")
	if err != nil {
		t.Fatal(err)
	}
	program := fmt.Sprintf(`
#include <stddef.h>
#include <stdio.h>
#include %q
int main(void) {
	printf("%%lx %%zu %%zu %%zu %%zu %%zu\n", (unsigned long)FSYNC_RANGE, sizeof(struct fsync_range),
		offsetof(struct fsync_range, fd), offsetof(struct fsync_range, datasync),
		offsetof(struct fsync_range, start), offsetof(struct fsync_range, length));
}`, header)
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "header.c"), filepath.Join(dir, "header")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	var r request
	want := fmt.Sprintf("%x %d %d %d %d %d\n", uint64(number), unsafe.Sizeof(r),
		unsafe.Offsetof(r.fd), unsafe.Offsetof(r.datasync), unsafe.Offsetof(r.start), unsafe.Offsetof(r.length))
	if string(got) != want {
		t.Errorf("C says %s, Go says %s", got, want)
	}
}
