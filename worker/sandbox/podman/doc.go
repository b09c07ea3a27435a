// Package podman runs each program in a sandbox of its own: a rootless Podman container whose
// kernel is gVisor, made for the program and destroyed after it. It is the only package that
// imports the Podman bindings.
//
// # What it refuses
//
// [Open] fails unless the Podman service is rootless and its OCI runtime is ours: there
// is no way back to crun or runc. A sandbox whose agent does not report gVisor's
// kernel is destroyed before it is told the program. A stream without its last frame
// is an error, never a result.
//
// # What crosses the wall
//
// One byte stream (package agentwire, served by package session). The host opens, follows,
// chowns and deletes no path that a job made.
//
// # Memory
//
// A run holds at most its inputs and what the sandbox may have on its way to the sink, however
// slow the sink is and however large an artifact.
//
// Start at [Sandboxes.Run].
package podman
