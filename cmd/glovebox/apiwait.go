package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// awaitRecords opens the records once Redis is there and can keep them. From the first try
// that fails on, callers hear that the api is not ready; before, they wait to be accepted.
func awaitRecords(ctx context.Context, l net.Listener, c record.Config, log *slog.Logger) (records *record.Store, err error) {
	var stop func() // answering that it is not ready; nil as long as nobody does
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	err = await.Until(ctx, log, "Redis", func(ctx context.Context) error {
		records, err = openDurable(ctx, c, log)
		if err != nil && stop == nil {
			stop = answerNotReady(l) //nolint:contextcheck // it ends with stop
		}
		return err
	})
	return records, err
}

// openDurable opens the records of a Redis that keeps them.
func openDurable(ctx context.Context, c record.Config, log *slog.Logger) (*record.Store, error) {
	records, err := record.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	if err = durable(ctx, records, log); err != nil {
		return nil, errors.Join(err, records.Close())
	}
	return records, nil
}

// answerNotReady answers every request on l with 503, but /healthz, until stop. l stays open.
func answerNotReady(l net.Listener) (stop func()) {
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close") // the next request is for the api itself
			if r.URL.Path == "/healthz" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"status":"ok"}`+"\n")
				return
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = json.NewEncoder(w).Encode(producer.NewProblem(http.StatusServiceUnavailable, job.CodeUnavailable, "the api waits for what it needs: try again in a moment"))
		}),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(lent{l}) // it ends with stop
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
		<-served
		deadline(l, time.Time{})
	}
}

// lent is a listener whose Close ends its Accept, and leaves it open.
type lent struct{ net.Listener }

func (l lent) Close() error {
	deadline(l.Listener, time.Unix(1, 0))
	return nil
}

func deadline(l net.Listener, at time.Time) {
	if l, ok := l.(interface{ SetDeadline(t time.Time) error }); ok {
		_ = l.SetDeadline(at) // it fails for one that is closed
	}
}
