package direct_test

import (
	"errors"
	"testing"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// What no replica has is not accepted, also where a second try finds it under its key.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	x, err := w.Client.StartSession(t.Context(), job.SessionSettings{Runtime: "python"})
	if err != nil {
		t.Fatal(err)
	}
	records, err := record.Open(t.Context(), record.Config{URL: w.Redis.API(), Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	c, err := direct.New(direct.Config{Links: w.Links, WebhookKeys: w.WebhookKeys}, records, w.Objects)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, key := range []string{"", "k", "k"} {
		if j, err := c.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", IdempotencyKey: key}); !errors.Is(err, redisconn.ErrUnconfirmed) {
			t.Errorf("submit under %q: got %+v, %v, want ErrUnconfirmed", key, j, err)
		}
		if j, err := c.ExecuteInSession(t.Context(), x.ID, job.SessionExecution{Code: "1", IdempotencyKey: key}); !errors.Is(err, redisconn.ErrUnconfirmed) {
			t.Errorf("execute under %q: got %+v, %v, want ErrUnconfirmed", key, j, err)
		}
	}
}
