// Command powercut is a crash-consistency test harness. As PID 1 of a guest the
// same binary is the guest's agent.
package main

import (
	"context"
	"os"

	"powercut/guest"
	"powercut/harness/cli"
)

func main() {
	if os.Getpid() == 1 && os.Args[0] == "/init" {
		guest.Main()
	}
	os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
