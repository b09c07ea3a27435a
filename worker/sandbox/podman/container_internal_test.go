package podman

import (
	"context"
	"testing"
	"time"
)

func TestBackstop(t *testing.T) {
	t.Parallel()
	p := &Sandboxes{config: Config{Backstop: time.Hour}}
	if got := p.backstop(t.Context()); got != time.Hour {
		t.Errorf("without a deadline: got %s, want the configured hour", got)
	}
	for end, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 11 * time.Minute, 59*time.Minute + 30*time.Second: time.Hour, -time.Second: time.Minute,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), end)
		defer cancel()
		if got := p.backstop(ctx).Round(time.Second); got != want {
			t.Errorf("with a deadline in %s: got %s, want %s", end, got, want)
		}
	}
}
