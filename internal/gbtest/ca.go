package gbtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority of the test's own.
type CA struct {
	// Pool trusts it.
	Pool *x509.CertPool
	// File is its certificate.
	File string

	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes one.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	ca := &CA{tb: tb, Pool: x509.NewCertPool()}
	template := template("a test's authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	ca.File, _, ca.cert, ca.key = ca.sign(template, template, nil)
	ca.Pool.AddCert(ca.cert)
	return ca
}

// Certificate returns the files of a certificate and of its key, for an IP address.
func (ca *CA) Certificate(ip string) (cert, key string) {
	ca.tb.Helper()
	template := template(ip)
	template.IPAddresses, template.KeyUsage = []net.IP{net.ParseIP(ip)}, x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} // a replica is a client
	cert, key, _, _ = ca.sign(template, ca.cert, ca.key)
	return cert, key
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes([]byte(rand.Text())), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// sign makes a key, and a certificate that by signs, or the key itself.
func (ca *CA) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (certFile, keyFile string, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	ca.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.tb.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err == nil {
		cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		ca.tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.tb.Fatal(err)
	}
	dir := ca.tb.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		var b bytes.Buffer
		if err := pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}); err != nil {
			ca.tb.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			ca.tb.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private), cert, key
}
