// Package cli is the command line: one file a command.
package cli

import (
	"context"
	"io"
)

// Streams are the program's input and outputs.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, args []string, s Streams) int { return 0 }
