// Command glovebox is Glovebox's command line, and its API server.
//
// Each subcommand has a file of its own, named after it; root.go holds what they
// share. It links no Podman: sandboxes are the business of glovebox-worker.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
