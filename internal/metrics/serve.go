package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapes is how many scrapes are answered at once; more are refused with 503.
const scrapes = 4

// Handler answers GET /metrics, and GET of further pages by their paths.
func Handler(r *prometheus.Registry, pages map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, Registry: r, MaxRequestsInFlight: scrapes,
	}))
	for path, page := range pages {
		mux.Handle("GET "+path, page)
	}
	return mux
}

// Start answers scrapes on l until stop, also while a process waits for Redis at its start, and while it ends. Without l nobody scrapes.
// Should it fail before, it says so in the log: nothing else depends on it.
func Start(ctx context.Context, l net.Listener, r *prometheus.Registry, pages map[string]http.Handler, log *slog.Logger) (stop func()) {
	if l == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() { serve(ctx, l, r, pages, log) })
	return func() { cancel(); serving.Wait() }
}

func serve(ctx context.Context, l net.Listener, r *prometheus.Registry, pages map[string]http.Handler, log *slog.Logger) {
	srv := &http.Server{
		Handler: Handler(r, pages), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	log.Info("metrics are served", "url", "http://"+l.Addr().String()+"/metrics")
	defer context.AfterFunc(ctx, func() { srv.Close() })() // a scrape that is cut off is made again
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("metrics are not served any more", "error", err)
	}
}
