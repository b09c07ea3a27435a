package rdb

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// stall is for how long Redis may say nothing: while it makes a snapshot it sends a line now and
// then (repl-ping-replica-period, 10 s by default).
const stall = time.Minute

// Snapshot is a snapshot that Redis sends. The caller closes it.
type Snapshot struct {
	// Size in bytes.
	Size int64

	conn net.Conn
	body io.Reader
	stop func() bool
}

// Fetch asks a Redis for a snapshot, as a replica does, and returns once it is made and begins to
// come. It takes the right to SYNC, which managed services give to nobody.
func Fetch(ctx context.Context, o *redis.Options) (*Snapshot, error) {
	conn, err := dial(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("reach Redis at %s: %w", o.Addr, err)
	}
	s := &Snapshot{conn: conn, stop: context.AfterFunc(ctx, func() { conn.Close() })}
	if err := s.begin(o); err != nil {
		s.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("ask Redis at %s for a snapshot: %w", o.Addr, err)
	}
	return s, nil
}

func dial(ctx context.Context, o *redis.Options) (net.Conn, error) {
	d := net.Dialer{Timeout: stall}
	network := o.Network
	if network == "" {
		network = "tcp"
	}
	if o.TLSConfig != nil {
		t := tls.Dialer{NetDialer: &d, Config: o.TLSConfig}
		return t.DialContext(ctx, network, o.Addr)
	}
	return d.DialContext(ctx, network, o.Addr)
}

// begin logs in, asks, and reads up to the snapshot itself.
func (s *Snapshot) begin(o *redis.Options) error {
	in := bufio.NewReader(s)
	s.body = in
	if o.Password != "" {
		user := o.Username
		if user == "" {
			user = "default"
		}
		if _, err := s.ask(in, "AUTH", user, o.Password); err != nil {
			return err
		}
	}
	// Without it Redis would keep what is written from now on for us. One that doesn't know it does so.
	if _, err := s.ask(in, "REPLCONF", "rdb-only", "1"); err != nil && !errors.As(err, new(refused)) {
		return err
	}
	size, err := s.ask(in, "SYNC")
	if err != nil {
		return err
	}
	if s.Size, err = strconv.ParseInt(strings.TrimPrefix(size, "$"), 10, 64); err != nil || s.Size < 0 || size[0] != '$' {
		return fmt.Errorf("it answers %.100q, want the snapshot's size", size)
	}
	s.body = io.LimitReader(in, s.Size)
	return nil
}

// refused is an error that Redis answers.
type refused string

func (r refused) Error() string { return string(r) }

// ask sends a command and returns the first line of the answer.
func (s *Snapshot) ask(in *bufio.Reader, words ...string) (string, error) {
	command := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(s.conn, command); err != nil {
		return "", err
	}
	for {
		line, err := in.ReadSlice('\n') // at most the reader's buffer
		if err != nil {
			return "", err
		}
		switch text := strings.TrimRight(string(line), "\r\n"); {
		case text == "": // it is still making the snapshot
		case text[0] == '-':
			return "", refused(text[1:])
		default:
			return text, nil
		}
	}
}

// Read reads the snapshot, and before that what begins it.
func (s *Snapshot) Read(p []byte) (int, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return s.conn.Read(p)
}

// WriteTo writes the snapshot, all of it or it fails.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, s.body)
	if err == nil && n != s.Size {
		err = fmt.Errorf("the snapshot broke off after %d of %d bytes: %w", n, s.Size, io.ErrUnexpectedEOF)
	}
	return n, err
}

// Close ends the connection.
func (s *Snapshot) Close() error {
	s.stop()
	return s.conn.Close()
}
