package hooks

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"
)

const (
	snsTimeout = 10 * time.Second // for all that one message needs
	// maxSNSFile bounds a certificate, and an answer to a confirmation.
	maxSNSFile = 64 << 10
	// maxSNSKeys is how many keys are remembered, and snsKeyLife for how long. Amazon has one a region, and
	// a new one each year.
	maxSNSKeys = 64
	snsKeyLife = 24 * time.Hour
	// maxSNSFetches is how many certificates are fetched at once: whoever knows a hook's id and topic can ask for one.
	maxSNSFetches = 4
	// maxSNSIssuers is how many issuers of a certificate are fetched. Amazon's file has the certificate alone.
	maxSNSIssuers = 2
	minSNSKeyBits = 2048
)

var (
	// snsName is whom certificates are for: sns.amazonaws.com, and sns-signing.REGION.amazonaws.com and its like.
	snsName = regexp.MustCompile(`^sns([.-][a-z0-9-]+)*\.amazonaws\.com(\.cn)?$`)
	// snsIssuer is where Amazon Trust Services has its certificates.
	snsIssuer = regexp.MustCompile(`^([a-z0-9-]+\.)+amazontrust\.com$`)
)

// SNS fetches what it takes to verify Amazon SNS' messages, and to confirm subscriptions. Safe for concurrent use.
type SNS struct {
	client  *http.Client
	roots   *x509.CertPool // nil: the system's
	fetches chan struct{}  // a place for each that is under way

	mu   sync.Mutex
	keys []snsKey // the oldest first
}

// snsKey is a key whose certificate was verified.
type snsKey struct {
	url      string
	key      *rsa.PublicKey
	from, to time.Time // when it is good
}

// NewSNS returns an SNS. The client has to refuse private addresses and to follow no redirect. Certificates
// are verified by roots, or the system's where it is nil.
func NewSNS(client *http.Client, roots *x509.CertPool) *SNS {
	return &SNS{client: client, roots: roots, fetches: make(chan struct{}, maxSNSFetches)}
}

// Close ends idle connections.
func (s *SNS) Close() { s.client.CloseIdleConnections() }

// Visit confirms a subscription, by the URL of a message that was verified.
func (s *SNS) Visit(ctx context.Context, raw string) error {
	ctx, cancel := context.WithTimeout(ctx, snsTimeout)
	defer cancel()
	if _, err := s.get(ctx, raw); err != nil {
		return fmt.Errorf("confirm subscription: %w", err)
	}
	return nil
}

// fetch returns the key of the certificate at a URL of Amazon's. It fails with ErrSignature for one that is not
// Amazon's, and otherwise where it can't be had now.
func (s *SNS) fetch(ctx context.Context, raw string, now time.Time) (*rsa.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, snsTimeout)
	defer cancel()
	select {
	case s.fetches <- struct{}{}:
		defer func() { <-s.fetches }()
	case <-ctx.Done():
		return nil, fmt.Errorf("fetch Amazon SNS' certificate: %w", ctx.Err())
	}
	if key := s.known(raw, now); key != nil { // another request fetched it meanwhile
		return key, nil
	}
	text, err := s.get(ctx, raw)
	if answered := statusError(0); errors.As(err, &answered) && (answered == http.StatusForbidden || answered == http.StatusNotFound) {
		return nil, ErrSignature // there is none: no sender of Amazon's names it
	}
	if err != nil {
		return nil, fmt.Errorf("fetch Amazon SNS' certificate: %w", err)
	}
	leaf, others := certificates(text)
	if leaf == nil || !forSNS(leaf) {
		return nil, ErrSignature
	}
	key, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok || key.N.BitLen() < minSNSKeyBits {
		return nil, ErrSignature
	}
	if err := s.verify(ctx, leaf, others, now); err != nil {
		return nil, err
	}
	s.remember(snsKey{raw, key, leaf.NotBefore, earlier(leaf.NotAfter, now.Add(snsKeyLife))})
	return key, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (s *SNS) known(raw string, now time.Time) *rsa.PublicKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if k.url == raw && !now.Before(k.from) && now.Before(k.to) {
			return k.key
		}
	}
	return nil
}

func (s *SNS) remember(k snsKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = slices.DeleteFunc(s.keys, func(old snsKey) bool { return old.url == k.url })
	if len(s.keys) >= maxSNSKeys {
		s.keys = slices.Delete(s.keys, 0, 1)
	}
	s.keys = append(s.keys, k)
}

// certificates reads a PEM file: the certificate, and others that may be its issuers.
func certificates(text []byte) (leaf *x509.Certificate, others []*x509.Certificate) {
	for len(others) < maxSNSIssuers {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil || block.Type != "CERTIFICATE":
			return nil, nil
		case leaf == nil:
			leaf = c
		default:
			others = append(others, c)
		}
	}
	return leaf, others
}

func forSNS(c *x509.Certificate) bool {
	return slices.ContainsFunc(append([]string{c.Subject.CommonName}, c.DNSNames...), snsName.MatchString)
}

// verify checks that a chain leads from a certificate to a root. An issuer that is missing is fetched from
// where the certificate says that it is, at Amazon's authority.
func (s *SNS) verify(ctx context.Context, leaf *x509.Certificate, others []*x509.Certificate, now time.Time) error {
	options := x509.VerifyOptions{Roots: s.roots, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	last := leaf
	for _, c := range others {
		options.Intermediates.AddCert(c)
		last = c
	}
	for fetched := 0; ; fetched++ {
		_, err := leaf.Verify(options)
		if err == nil {
			return nil
		}
		if !errors.As(err, new(x509.UnknownAuthorityError)) || fetched >= maxSNSIssuers {
			return ErrSignature
		}
		if last, err = s.issuer(ctx, last); err != nil {
			return err
		}
		options.Intermediates.AddCert(last)
	}
}

// issuer fetches the certificate of who issued c. What it gets proves itself by the chain.
func (s *SNS) issuer(ctx context.Context, c *x509.Certificate) (*x509.Certificate, error) {
	for _, raw := range c.IssuingCertificateURL {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || !snsIssuer.MatchString(u.Host) {
			continue
		}
		text, err := s.get(ctx, raw)
		if err != nil {
			return nil, fmt.Errorf("fetch the issuer of Amazon SNS' certificate: %w", err)
		}
		if issuer, err := x509.ParseCertificate(text); err == nil {
			return issuer, nil
		}
	}
	return nil, ErrSignature
}

// statusError is an answer that isn't 200.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("the server answered %d", int(e)) }

// get reads a small file.
func (s *SNS) get(ctx context.Context, raw string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, http.NoBody)
	if err != nil {
		return nil, errors.New("the URL is none")
	}
	res, err := s.client.Do(req)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) { // which may hold a token
			err = withURL.Err
		}
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, statusError(res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxSNSFile+1))
	if err == nil && len(text) > maxSNSFile {
		err = fmt.Errorf("the answer has more than %d bytes", maxSNSFile)
	}
	return text, err
}
