package backup

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestRunning: nothing is put under a process that works with what is there.
func TestRunning(t *testing.T) {
	t.Parallel()
	from, p := newPlace(t), newPlace(t)
	from.end(t, 1)
	file, report := from.save(t)
	o := *p.options
	o.Username, o.DisableIdentity = "glovebox-worker", true // it may not name its library, which Redis 7.0 does not know
	worker, shared := redis.NewClient(&o), redis.NewClient(p.options)
	defer shared.Close()
	if err := worker.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	refused := func(want error) {
		t.Helper()
		if _, err := Restore(t.Context(), bytes.NewReader(file), report.SHA256, p.target(true)); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	refused(ErrRunning)
	worker.Close()
	// Where all have one user, what it does tells a service.
	messages := shared.Subscribe(t.Context(), "x")
	defer messages.Close()
	if _, err := messages.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused(ErrRunning)
}

// TestSentinels: Sentinels that watch a Redis don't keep a restore from it; a service does, whatever it calls itself.
func TestSentinels(t *testing.T) {
	t.Parallel()
	from := newPlace(t)
	from.end(t, 1)
	file, report := from.save(t)
	group := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: gbtest.Patience}) // no failover
	p := newPlaceAt(t, group.Primary(t).Admin())
	const hello = "__sentinel__:hello"
	gbtest.Eventually(t, "each Sentinel listens to the others", func() bool {
		return p.redis.PubSubNumSub(t.Context(), hello).Val()[hello] == int64(len(group.Sentinels))
	})
	restore := func() error {
		_, err := Restore(t.Context(), bytes.NewReader(file), report.SHA256, p.target(true))
		return err
	}
	if err := restore(); err != nil {
		t.Errorf("watched by Sentinels: got %v", err)
	}
	o := *p.options
	o.ClientName = "sentinel-01234567-pubsub"
	service := redis.NewClient(&o)
	defer service.Close()
	messages := service.Subscribe(t.Context(), "gb:done")
	defer messages.Close()
	if _, err := messages.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := restore(); !errors.Is(err, ErrRunning) {
		t.Errorf("with a service that bears a Sentinel's name: got %v, want %v", err, ErrRunning)
	}
}

// meeting reads a backup, and does something before it reads on from somewhere.
type meeting struct {
	file []byte
	read int
	at   int
	do   func()
}

func (m *meeting) Read(p []byte) (int, error) {
	if m.read == m.at && m.do != nil {
		m.do()
		m.do = nil
	}
	end := len(m.file)
	if m.read < m.at {
		end = m.at
	}
	if m.read == end {
		return 0, io.EOF
	}
	n := copy(p, m.file[m.read:end])
	m.read += n
	return n, nil
}

// TestJoined: an api that connects after the first look is found, whether the records are put back next or the objects.
func TestJoined(t *testing.T) {
	t.Parallel()
	from := newPlace(t)
	from.end(t, 1)
	file, report := from.save(t)
	for _, before := range []string{redisName, objectsDir} {
		p := newPlace(t)
		p.end(t, 2)
		o := *p.options
		o.Username, o.DisableIdentity = "glovebox-api", true
		api := redis.NewClient(&o)
		defer api.Close()
		connect := func() {
			if err := api.Ping(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}
		done, err := Restore(t.Context(), &meeting{file: file, at: bytes.Index(file, []byte(before)), do: connect}, report.SHA256, p.target(true))
		if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "glovebox-api") || !done.Begun {
			t.Errorf("before %s: got %+v, %v, want that it had begun, and %v with the user", before, done, err, ErrRunning)
		}
	}
}

// slowly passes on what is sent to a server, so many bytes a second, and what it answers, and returns where.
func slowly(t *testing.T, server string, rate int) (addr string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
			if err != nil {
				t.Error(err)
				client.Close()
				return
			}
			passing.Go(func() {
				_, _ = io.Copy(client, behind)
				client.Close()
			})
			passing.Go(func() {
				defer behind.Close()
				for part := rate / 50; ; time.Sleep(time.Second / 50) {
					if _, err := io.CopyN(behind, client, int64(part)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		passing.Wait()
	})
	return l.Addr().String()
}

// TestSlowNetwork: a value that takes longer than a call of a service may is put back all the same.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	from, p := newPlace(t), newPlace(t)
	from.end(t, 1)
	large := make([]byte, 4<<20)
	_, _ = rand.Read(large) // it can't be compressed
	from.redis.Set(t.Context(), "gb:{acme}:large", large, 0)
	file, report := from.save(t)
	o := *p.options
	o.Addr = slowly(t, o.Addr, len(large)) // both times it is sent, it takes a second
	o.ReadTimeout, o.WriteTimeout, o.MaxRetries = 300*time.Millisecond, 300*time.Millisecond, -1
	client := redis.NewClient(&o)
	t.Cleanup(func() { client.Close() })
	target := p.target(false)
	target.Redis = client
	if _, err := Restore(t.Context(), bytes.NewReader(file), report.SHA256, target); err != nil {
		t.Fatal(err)
	}
	if got := p.redis.StrLen(t.Context(), "gb:{acme}:large").Val(); got != int64(len(large)) {
		t.Errorf("got %d bytes, want %d", got, len(large))
	}
}

// TestFull: a Redis that takes nothing more loses nothing, and is not said to be too old.
func TestFull(t *testing.T) {
	t.Parallel()
	from, to := newPlace(t), newPlace(t)
	from.end(t, 1)
	file, report := from.save(t)
	to.end(t, 2)
	if err := to.redis.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	done, err := Restore(t.Context(), bytes.NewReader(file), report.SHA256, to.target(true))
	if !errors.Is(err, ErrFull) || errors.Is(err, ErrOlder) || done.Begun {
		t.Errorf("got %+v, %v, want %v before anything is deleted", done, err, ErrFull)
	}
	if to.redis.Exists(t.Context(), "gb:{acme}:job:"+id(2)).Val() != 1 {
		t.Error("the job that was there is deleted")
	}
}
