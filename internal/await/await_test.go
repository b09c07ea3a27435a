package await

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestUntil: it goes on as soon as it can, and in an hour says that it waits a few times.
func TestUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		began := time.Now()
		err := Until(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), "Redis", func(context.Context) error {
			if time.Since(began) < time.Hour {
				return errors.New("connection refused")
			}
			return nil
		})
		if late := time.Since(began) - time.Hour; err != nil || late > lastPause {
			t.Errorf("got %v, %s late", err, late)
		}
		n := strings.Count(said.String(), "waiting for Redis")
		if n < 3 || n > 15 || strings.Count(said.String(), "there is Redis now") != 1 {
			t.Errorf("it said %s", said.String())
		}
	})
}

func TestUntilEndsForWrongSettings(t *testing.T) {
	t.Parallel()
	n := 0
	err := Until(t.Context(), slog.New(slog.DiscardHandler), "Redis", func(context.Context) error {
		n++
		return fmt.Errorf("reach Redis: %w: WRONGPASS", ErrSettings)
	})
	if !errors.Is(err, ErrSettings) || n != 1 {
		t.Errorf("got %v after %d tries", err, n)
	}
}

func TestUntilEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err := Until(ctx, slog.New(slog.DiscardHandler), "Redis", func(context.Context) error { return errors.New("away") })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// What neither answers nor fails is named, too.
func TestUntilSaysWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said gbtest.Buffer
		err := Until(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), "Podman", func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		})
		if err != nil || strings.Count(said.String(), "waiting for Podman") != 1 {
			t.Errorf("got %v; it said %q", err, said.String())
		}
	})
}
