// Package sandbox runs one program in one sandbox: a rootless Podman container whose
// kernel is gVisor, made for the program and destroyed after it. It is the only
// package that imports the Podman bindings.
//
// What a user's program does wrong is an [Outcome]; an error always means that Glovebox
// failed and that the same program may be tried again.
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
// One byte stream (package agentwire). The host opens, follows, chowns and deletes no
// path that a job made. Every frame is treated as hostile: lengths, order, totals and
// names are checked here again, whatever the agent checked.
//
// # Memory
//
// A run holds at most its inputs and window bytes of what the job sends, however slow
// the [Sink] is and however large an artifact.
//
// Start at [Podman.Run].
package sandbox
