package artifacts

import (
	"context"
	"net"
	"net/http"
	"time"
)

// newTransport returns a transport whose connections fail when nothing has moved on
// them for stall.
func newTransport(stall time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &stallConn{Conn: c, timeout: stall}, nil
		},
		TLSHandshakeTimeout: 10 * time.Second,
		// An idle connection must be dropped by us before its read deadline does it.
		IdleConnTimeout:     min(stall/2, 30*time.Second),
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true, // Content-Length then is the object's size
	}
}

// stallConn moves its deadlines whenever bytes move. net/http has a time-out for a
// whole request, which a large part on a slow line would need to be huge, and none
// for a connection that stopped.
type stallConn struct {
	net.Conn
	timeout time.Duration
}

// writeChunk is what must be written within the time-out; net/http hands over a whole
// part at once.
const writeChunk = 64 << 10

func (c *stallConn) Write(p []byte) (int, error) {
	written := 0
	for {
		// The read deadline moves too: net/http waits in Read for an answer during the
		// whole of a long upload.
		if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+writeChunk)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}
