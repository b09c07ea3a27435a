// Package snstest plays Amazon SNS for tests: a certificate authority, the host that has the certificate and
// confirms subscriptions, and messages that are signed as Amazon's are. Nothing of it leaves the machine.
package snstest

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // as Amazon signs
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/hooks"
)

// What the Amazon of a test is called.
const (
	Topic = "arn:aws:sns:us-east-1:123456789012:uploads"
	Host  = "sns.us-east-1.amazonaws.com"
	// CertURL leads to a certificate whose issuer has to be fetched, as Amazon's does.
	CertURL = "https://" + Host + "/SimpleNotificationService-0123456789abcdef.pem"

	issuerHost = "crt.r2m01.amazontrust.com"
)

// Amazon is its hosts. Whatever host a client dials, it is one of these.
type Amazon struct {
	// Client reaches them, and Roots vouch for their certificates.
	Client *http.Client
	Roots  *x509.CertPool
	// Key signs messages.
	Key *rsa.PrivateKey

	root, issuer authority

	mu    sync.Mutex
	files map[string][]byte // that the hosts have, by host and path
	asked []string
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// New starts an Amazon that ends with the test.
func New(tb testing.TB) *Amazon {
	tb.Helper()
	a := &Amazon{Roots: x509.NewCertPool(), files: map[string][]byte{}}
	a.root = a.issue(tb, authority{}, func(c *x509.Certificate) { c.IsCA, c.Subject.CommonName = true, "Root" })
	a.issuer = a.issue(tb, a.root, func(c *x509.Certificate) { c.IsCA, c.Subject.CommonName = true, "Issuer" })
	a.Roots.AddCert(a.root.cert)
	a.Set(issuerHost+"/issuer.cer", a.issuer.cert.Raw)
	leaf := a.Signer(tb, CertURL, func(*x509.Certificate) {})
	a.Key = leaf

	secure := httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	host := a.issue(tb, a.root, func(c *x509.Certificate) { c.DNSNames = []string{Host, issuerHost} })
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{host.cert.Raw}, PrivateKey: host.key}}}
	secure.StartTLS()
	tb.Cleanup(secure.Close)
	plain := httptest.NewServer(http.HandlerFunc(a.serve))
	tb.Cleanup(plain.Close)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		to := secure.Listener.Addr().String()
		if strings.HasSuffix(address, ":80") {
			to = plain.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
	a.Client = &http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.Roots}}}
	tb.Cleanup(a.Client.CloseIdleConnections)
	return a
}

// SNS is one that reaches this Amazon and nothing else.
func (a *Amazon) SNS() *hooks.SNS { return hooks.NewSNS(a.Client, a.Roots) }

// Signer puts a certificate at a URL, with what change makes of it, and returns its key.
func (a *Amazon) Signer(tb testing.TB, url string, change func(*x509.Certificate)) *rsa.PrivateKey {
	tb.Helper()
	leaf := a.issue(tb, a.issuer, func(c *x509.Certificate) {
		c.DNSNames = []string{"sns.amazonaws.com"}
		c.IssuingCertificateURL = []string{"http://" + issuerHost + "/issuer.cer"}
		change(c)
	})
	a.Set(strings.TrimPrefix(url, "https://"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.cert.Raw}))
	key, _ := leaf.key.(*rsa.PrivateKey)
	return key
}

// Set is what is at a host and path; nil for nothing.
func (a *Amazon) Set(path string, content []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files[path] = content
}

// Get is what is at a host and path.
func (a *Amazon) Get(path string) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.files[path]
}

// Asked lists the hosts and paths that were asked for.
func (a *Amazon) Asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.asked...)
}

func (a *Amazon) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := r.Host + r.URL.Path
	a.asked = append(a.asked, at)
	if content := a.files[at]; content != nil {
		_, _ = w.Write(content)
		return
	}
	http.NotFound(w, r)
}

// issue makes a certificate for a new key, by an authority, or by itself where that is none.
func (a *Amazon) issue(tb testing.TB, by authority, change func(*x509.Certificate)) authority {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "sns.amazonaws.com"}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
	}
	change(c)
	if by.cert == nil {
		by = authority{c, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, key.Public(), by.key)
	if err != nil {
		tb.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return authority{made, key}
}

// Message is what Amazon posts.
type Message map[string]any

// Notification is a message of the topic, not yet signed.
func Notification(id string, at time.Time) Message {
	return Message{
		"Type": "Notification", "MessageId": id, "TopicArn": Topic, "Subject": "My First Message", "Message": "Hello,\nworld! é <&>",
		"Timestamp": at.UTC().Format("2006-01-02T15:04:05.000Z"), "SigningCertURL": CertURL,
		"UnsubscribeURL": "https://" + Host + "/?Action=Unsubscribe",
	}
}

// Confirmation is a message of a subscription that begins, or ends.
func Confirmation(kind, id string, at time.Time) Message {
	m := Notification(id, at)
	delete(m, "Subject")
	m["Type"], m["Token"], m["SubscribeURL"] = kind, "2336412f37", "https://"+Host+"/?Action=ConfirmSubscription&TopicArn="+Topic+"&Token=2336412f37"
	return m
}

// Sign signs a message as its type and that version have it, and returns it as it is posted.
func (m Message) Sign(tb testing.TB, key *rsa.PrivateKey, version string) []byte {
	tb.Helper()
	names := []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	if m["Type"] != "Notification" {
		names = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
	}
	var content strings.Builder
	for _, name := range names {
		if text, ok := m[name].(string); ok {
			content.WriteString(name + "\n" + text + "\n")
		}
	}
	hash, old := crypto.SHA256, sha1.Sum([]byte(content.String())) //nolint:gosec // as Amazon signs
	sum := sha256.Sum256([]byte(content.String()))
	digest := sum[:]
	if version == "1" {
		hash, digest = crypto.SHA1, old[:]
	}
	signature, err := rsa.SignPKCS1v15(nil, key, hash, digest)
	if err != nil {
		tb.Fatal(err)
	}
	m["SignatureVersion"], m["Signature"] = version, base64.StdEncoding.EncodeToString(signature)
	return m.Bytes(tb)
}

// Bytes is the message as it is posted, whatever is signed of it.
func (m Message) Bytes(tb testing.TB) []byte {
	tb.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
