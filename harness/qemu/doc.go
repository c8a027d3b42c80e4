// Package qemu runs a virtual machine: it composes the command line from small
// values, starts QEMU so that it cannot outlive the harness, speaks QMP with
// it, forks booted guests from a template, kills them, and reads what the
// guest's kernel said on its console.
//
// # Who owns what
//
// The guest's RAM is a memfd that the harness creates, maps and passes on. It
// is the harness that keeps it alive, so what the guest stored last can be read
// after QEMU is dead ([VM.Memory]). QMP and the control port are socket pairs,
// inherited by QEMU as descriptors: no socket file lies about and no path can
// be too long. The serial console is written by QEMU itself into a file, so
// nothing of it is lost at a kill.
//
// # Kill
//
// [VM.Kill] is SIGKILL: QEMU gets no chance to flush or to say goodbye to its
// drive, which is what makes it a power cut. QMP's quit is a clean shutdown and
// is used for templates only.
//
// # Deadlines
//
// Every wait of this package is bounded, by the caller's context and by a limit
// of its own. A failure of the infrastructure is an [*Error]: it says what was
// tried, why it failed (errors.Is with [ErrExited] and [ErrDeadline]), and
// carries the end of QEMU's standard error and of the guest's console.
package qemu
