package recording

import (
	"context"
	"io"
	"os"

	"powercut/harness/internal/sparse"
	"powercut/harness/internal/whole"
)

// WriteImage writes the content of a drive of size bytes to a file: raw, with holes
// where it is zeros; as a whole, or not at all: see
// whole.WriteContext.
func WriteImage(ctx context.Context, path string, drive io.ReaderAt, size int64) error {
	return whole.WriteContext(ctx, path, func(f *os.File) error {
		return sparse.Copy(f, io.NewSectionReader(drive, 0, size), size)
	})
}
