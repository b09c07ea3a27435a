// Package process runs each program in namespaces of its own on the host's kernel: for code that is trusted, for CI, and for machines without
// Podman. It is no boundary against code that looks for one: that is gVisor's (package podman).
//
// A sandbox is the agent (cmd/glovebox-agent) as a child of the worker, in a user, mount, pid, network, IPC and host name namespace. The
// agent makes the root that programs see, of the host's /usr and what belongs to it, read-only, and of memory for all that can be written
// to. So nothing of a program is on the host's disk, and all of it ends with the agent, as that does with its worker.
//
// # What it refuses
//
// A program whose submitter does not accept this isolation ([sandbox.Program].Isolation), one with an image, and sessions. [Open] fails where the kernel
// gives no such namespaces: there is no way to run with fewer.
//
// Start at [Sandboxes.Run].
package process
