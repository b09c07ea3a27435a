package record

import (
	"context"
	"sync"

	"github.com/glovebox-run/glovebox/job"
)

// What a process remembers of sessions: of so many, and of each so many bytes of JSON at most.
const (
	maxKnownSessions = 1000
	maxKnownSettings = 4 << 10
)

// settingsCache remembers what sessions were opened with.
type settingsCache struct {
	mu       sync.Mutex
	sessions map[string]job.SessionSettings
}

func (c *settingsCache) get(id string) (job.SessionSettings, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	settings, ok := c.sessions[id]
	return settings, ok
}

func (c *settingsCache) put(id string, settings job.SessionSettings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil || len(c.sessions) >= maxKnownSessions {
		c.sessions = map[string]job.SessionSettings{}
	}
	c.sessions[id] = settings
}

// SessionSettings returns the runtime, limits, environment and names of secrets that a session was opened with, which nothing changes: most are asked for once. So the session may have
// ended since, or be gone. The caller changes nothing in them. hold is as HeldSession's; nothing is held for what is remembered. It fails with job.ErrNoSession.
func (s *Store) SessionSettings(ctx context.Context, id string, hold func(settings int64) error) (job.SessionSettings, error) {
	if settings, ok := s.settings.get(id); ok {
		return settings, nil
	}
	x, size, err := s.readSession(ctx, id, hold)
	if err == nil && size <= maxKnownSettings {
		s.settings.put(id, x.Settings)
	}
	return x.Settings, err
}
