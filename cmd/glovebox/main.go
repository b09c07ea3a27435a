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
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals // a second one ends the process at once, and dev's children with it
		os.Exit(exitInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
