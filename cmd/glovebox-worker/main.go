// Command glovebox-worker takes jobs from the queue and runs each in a gVisor sandbox
// of its own. It is told everything by its environment: `glovebox-worker --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A second signal kills at once: the first one's handler is gone by then.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
