package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestRecover(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	a := &API{log: slog.New(slog.NewTextHandler(&log, nil))}
	h := a.identify(a.record(a.recover(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh no") }))))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?token=secret", http.NoBody))
	if w.Code != 500 || !strings.Contains(w.Body.String(), "urn:glovebox:problem:internal") || strings.Contains(w.Body.String(), "oh no") {
		t.Errorf("got %d %s, want a problem that says nothing of the fault", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "oh no") || strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "status=500") {
		t.Errorf("got log %s", &log)
	}
}

func TestPreferredWait(t *testing.T) {
	t.Parallel()
	for prefer, want := range map[string]time.Duration{
		"": 0, "wait=5": 5 * time.Second, "WAIT = 5": 5 * time.Second, `respond-async, wait="7";a=b`: 7 * time.Second,
		"wait=100": time.Minute, "wait=0": 0, "wait=-1": 0, "wait=1.5": 0, "waits=3": 0, "wait=3, wait=4": 3 * time.Second, ",;=,": 0,
	} {
		if got := preferredWait(prefer, time.Minute); got != want {
			t.Errorf("%q: got %s, want %s", prefer, got, want)
		}
	}
}
