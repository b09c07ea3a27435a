package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// figures logs what the process is made of at each SIGUSR1, until ctx ends: for soak
// tests, and for operators who suspect a leak. What else there is to know is in /proc.
func figures(ctx context.Context, log *slog.Logger) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		log.Info("figures", "goroutines", runtime.NumGoroutine(), "heap_bytes", m.HeapAlloc, "stack_bytes", m.StackInuse, "gc_cycles", m.NumGC)
	}
}
