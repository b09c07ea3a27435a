package dev

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// forward carries each connection that l accepts to the Unix socket at path, which may be
// away, until stop is called. That ends them all, and closes l.
func forward(l net.Listener, path string) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			client, err := l.Accept()
			if err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond): // no descriptor is left, for now
				}
				continue
			}
			running.Go(func() { carry(ctx, client, path) })
		}
	})
	return func() error {
		cancel()
		err := l.Close()
		running.Wait()
		return err
	}
}

// carry carries one connection, in both directions, until both have ended.
func carry(ctx context.Context, client net.Conn, path string) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return // the server is being started again; clients try again
	}
	defer server.Close()
	both := func() { client.Close(); server.Close() }
	defer context.AfterFunc(ctx, both)()
	var directions sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		directions.Go(func() {
			if _, err := io.Copy(to, from); err != nil || closeWrite(to) != nil {
				both()
			}
		})
	}
	directions.Wait()
}

// closeWrite tells the other side that no more comes, and leaves it its answer.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
