package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// logStats logs the process's goroutines and heap at each SIGUSR1, until ctx ends: for soak
// tests, and for operators who suspect a leak. /proc has the rest.
func logStats(ctx context.Context, log *slog.Logger) {
	requested := make(chan os.Signal, 1)
	signal.Notify(requested, syscall.SIGUSR1)
	defer signal.Stop(requested)
	for {
		select {
		case <-ctx.Done():
			return
		case <-requested:
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		log.Info("figures", "goroutines", runtime.NumGoroutine(), "heap_bytes", m.HeapAlloc, "stack_bytes", m.StackInuse, "gc_cycles", m.NumGC)
	}
}
