package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// explain turns an error of net/http, whose text has addresses, into one for tenants. What
// it wraps is for logs, and so without the URL, whose path or query may be a secret.
//
// Of a host name it doesn't tell whether it leads nowhere or to an address that is not
// allowed: else tenants could find out which names there are inside.
func (s *Sender) explain(ctx context.Context, host string, err error) *Error {
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err
	}
	var (
		dns      *net.DNSError
		hostname x509.HostnameError
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		notTLS   tls.RecordHeaderError
		op       *net.OpError
	)
	message := "the endpoint could not be reached"
	switch {
	case ctx.Err() != nil: // the caller's, not the attempt's
		message = "the attempt was interrupted"
	case errors.Is(err, ErrBlocked) && isAddress(host):
		message = s.guard.refusal(host)
	case errors.Is(err, ErrBlocked), errors.As(err, &dns):
		message = fmt.Sprintf("the host %s does not lead to a public address, or not at one of ports %s", host, s.guard.portList())
	case isTimeout(err):
		message = "the endpoint did not answer in time"
	case errors.As(err, &hostname):
		message = fmt.Sprintf("the endpoint's certificate is not one of %s", host)
	case errors.As(err, &unknown):
		message = "the endpoint's certificate is signed by nobody we know"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		message = "the endpoint's certificate has expired"
	case errors.As(err, &invalid), errors.As(err, &notTLS), errors.Is(err, http.ErrSchemeMismatch),
		errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"): // how crypto/tls names its alerts
		message = "the endpoint does not speak TLS 1.2 or later with a valid certificate"
	case errors.Is(err, syscall.ECONNREFUSED):
		message = "the endpoint refused the connection"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
		message = "the endpoint closed the connection without an answer"
	}
	return &Error{message, err}
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// retryAfter reads seconds or an HTTP date; what is neither, past or absent is 0.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(date.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
