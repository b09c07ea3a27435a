package redisconn

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// silence is how long a subscription may hear nothing, though it has pinged: a machine that is cut
// off says nothing, and TCP would notice after a quarter of an hour.
const silence = 3 * HealthCheck

// conn is a connection whose reads end: those without a deadline, which are a subscription's, after silence.
type conn struct {
	net.Conn
	closed func() // called once; may be nil
	once   sync.Once
}

func (c *conn) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		t = time.Now().Add(silence)
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Close() error {
	if c.closed != nil {
		c.once.Do(c.closed)
	}
	return c.Conn.Close()
}

// rawConn is a conn without TLS: the pool looks into its socket whether the peer has closed it.
type rawConn struct {
	*conn
	syscall.Conn
}

func notSilent(c net.Conn, closed func()) net.Conn {
	wrapped := &conn{Conn: c, closed: closed}
	if raw, ok := c.(syscall.Conn); ok {
		return &rawConn{wrapped, raw}
	}
	return wrapped
}
