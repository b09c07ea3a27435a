// Package sandbox is what a worker and the sandboxes that run its programs agree on: the
// [Program], the [Sink] that takes what it makes, its [Outcome], and the errors. It needs
// nothing of Podman, so neither does a worker's code, nor what is tested without a sandbox.
//
// What a user's program does wrong is an [Outcome]; an error always means that Glovebox
// failed and that the same program may be tried again.
//
// Package podman runs programs. Package internal/session is the worker's end of a sandbox's
// stream.
package sandbox
