package hooks_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/hooks"
	"github.com/glovebox-run/glovebox/internal/hooks/snstest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

var snsSettings = job.HookSettings{Sender: job.SenderSNS, TopicARN: snstest.Topic}

// TestSNS: messages of all types and both versions are verified; what differs in a byte of what is signed,
// and what says it otherwise, is not.
func TestSNS(t *testing.T) {
	t.Parallel()
	amazon := snstest.New(t)
	sns, now := amazon.SNS(), time.Now()
	verify := func(body []byte, now time.Time) (hooks.Delivery, error) {
		return sns.Verify(t.Context(), snsSettings, hooks.Request{Body: body, Header: head("Content-Type", "text/plain; charset=UTF-8")}, now)
	}
	without := snstest.Notification("n-2", now)
	delete(without, "Subject")
	for _, m := range []snstest.Message{
		snstest.Notification("n-1", now), without, snstest.Confirmation("SubscriptionConfirmation", "c-1", now), snstest.Confirmation("UnsubscribeConfirmation", "u-1", now),
	} {
		for _, version := range []string{"1", "2"} {
			what := fmt.Sprint(m["Type"], " ", version)
			body := m.Sign(t, amazon.Key, version)
			d, err := verify(body, now)
			if err != nil || d.ID != m["MessageId"] || !slices.Equal(d.Keys, []string{"id:" + d.ID}) || (d.Handshake == nil) != (m["Type"] == "Notification") {
				t.Fatalf("%s: got %+v, %v", what, d, err)
			}
			if (d.Visit != "") != (m["Type"] == "SubscriptionConfirmation") {
				t.Errorf("%s: got %q to visit", what, d.Visit)
			}
			if d.Body["Message"] != m["Message"] || d.Body["UnsubscribeURL"] != nil {
				t.Errorf("%s: got the body %v, want what is signed", what, d.Body)
			}
			for name, value := range m {
				text, _ := value.(string)
				if name == "UnsubscribeURL" { // isn't signed
					continue
				}
				for i := 0; i < len(text); i += 1 + len(text)/7 {
					changed := maps.Clone(m)
					b := []byte(text)
					b[i] ^= 1
					changed[name] = string(b)
					if d, err := verify(changed.Bytes(t), now); !errors.Is(err, hooks.ErrSignature) {
						t.Errorf("%s, %s changed at %d: got %+v, %v, want ErrSignature", what, name, i, d, err)
					}
				}
				changed := maps.Clone(m)
				delete(changed, name)
				if d, err := verify(changed.Bytes(t), now); !errors.Is(err, hooks.ErrSignature) {
					t.Errorf("%s without %s: got %+v, %v, want ErrSignature", what, name, d, err)
				}
			}
			if _, err := verify(body, now.Add(time.Hour+time.Second)); !errors.Is(err, hooks.ErrTime) {
				t.Errorf("%s, old: got %v, want ErrTime", what, err)
			}
			if _, err := verify(body, now.Add(-6*time.Minute)); !errors.Is(err, hooks.ErrTime) {
				t.Errorf("%s, of the future: got %v, want ErrTime", what, err)
			}
		}
	}
	other := snstest.Notification("n-3", now)
	other["TopicArn"] = strings.Replace(snstest.Topic, "123456789012", "210987654321", 1)
	if _, err := verify(other.Sign(t, amazon.Key, "2"), now); !errors.Is(err, hooks.ErrSignature) {
		t.Errorf("another's topic: got %v, want ErrSignature", err)
	}
	asked := amazon.Asked()
	if slices.Sort(asked); len(asked) != 2 {
		t.Errorf("Amazon was asked for %q, want the certificate and its issuer, once", asked)
	}
}

// TestSNSCertURL: a certificate is fetched from Amazon's host of the topic's region, and from nowhere else.
func TestSNSCertURL(t *testing.T) {
	t.Parallel()
	amazon := snstest.New(t)
	const path = "/SimpleNotificationService-0123456789abcdef.pem"
	for _, url := range []string{
		"https://sns.evil.com" + path, "https://sns.us-east-1.amazonaws.com.evil.com" + path, "https://" + snstest.Host + "@evil.com" + path,
		"https://evil.com\\@" + snstest.Host + path, "https://user@" + snstest.Host + path, "https://user:x@" + snstest.Host + path,
		"https://" + snstest.Host + ":443" + path, "https://" + snstest.Host + ":8443" + path, "https://" + snstest.Host + ":" + path, "https://" + snstest.Host + "." + path,
		"http://" + snstest.Host + path, "//" + snstest.Host + path, "https:" + snstest.Host + path, "HTTPS://" + snstest.Host + path, " https://" + snstest.Host + path,
		"https://evil.com#" + snstest.Host + path, "https://evil.com?" + snstest.Host + path, "https://" + snstest.Host + "/x" + path, "https://" + snstest.Host + "/.." + path,
		"https://" + snstest.Host + path + "?x", "https://" + snstest.Host + path + "#x", "https://" + snstest.Host + path + "\n", "https://" + snstest.Host + "/other.pem",
		"https://sns.us-west-2.amazonaws.com" + path, "https://sns.us-east-1.amazonaws.com.cn" + path, "https://s3.amazonaws.com" + path, "https://sns.amazonaws.com" + path,
		"https://xsns.us-east-1.amazonaws.com" + path, "https://127.0.0.1" + path, "https://[::1]" + path, "https://localhost" + path, "https://169.254.169.254" + path,
		"file:///etc/passwd", "", strings.Repeat("x", 5000),
	} {
		m := snstest.Notification("n", time.Now())
		m["SigningCertURL"] = url
		sns := amazon.SNS()
		_, err := sns.Verify(t.Context(), snsSettings, hooks.Request{Body: m.Sign(t, amazon.Key, "2")}, time.Now())
		if !errors.Is(err, hooks.ErrSignature) {
			t.Errorf("%.200q: got %v, want ErrSignature", url, err)
		}
	}
	if asked := amazon.Asked(); len(asked) > 0 {
		t.Errorf("asked for %q, want nothing", asked)
	}
}

// TestSNSCertificate: a certificate has to be Amazon SNS' by a chain, good now, of a key that is long enough. One
// that can't be had now is no forgery.
func TestSNSCertificate(t *testing.T) {
	t.Parallel()
	amazon, foreign := snstest.New(t), snstest.New(t)
	now := time.Now()
	verify := func(sns *hooks.SNS, at string, m snstest.Message) error {
		m["SigningCertURL"] = at
		_, err := sns.Verify(t.Context(), snsSettings, hooks.Request{Body: m.Bytes(t)}, now)
		return err
	}
	url := func(n int) string {
		return fmt.Sprintf("https://%s/SimpleNotificationService-%d.pem", snstest.Host, n)
	}
	for i, change := range map[int]func(*x509.Certificate){
		1: func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) },
		2: func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) },
		3: func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = []string{"evil.com"}, "evil.com" },
		4: func(c *x509.Certificate) {
			c.DNSNames, c.Subject.CommonName = []string{"sns.amazonaws.com.evil.com"}, "evil.com"
		},
		5: func(c *x509.Certificate) { c.IssuingCertificateURL = []string{"http://evil.com/issuer.cer"} },
		6: func(c *x509.Certificate) { c.IssuingCertificateURL = nil },
	} {
		m := snstest.Notification("n", now)
		m.Sign(t, amazon.Signer(t, url(i), change), "2")
		if err := verify(amazon.SNS(), url(i), m); !errors.Is(err, hooks.ErrSignature) {
			t.Errorf("certificate %d: got %v, want ErrSignature", i, err)
		}
	}
	// One of another authority, on Amazon's own host.
	m := snstest.Notification("n", now)
	m.Sign(t, foreign.Key, "2")
	if err := verify(hooks.NewSNS(foreign.Client, amazon.Roots), snstest.CertURL, m); !errors.Is(err, hooks.ErrSignature) {
		t.Errorf("of another authority: got %v, want ErrSignature", err)
	}
	for name, content := range map[string][]byte{"no PEM": []byte("x"), "no certificate": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")} {
		amazon.Set(strings.TrimPrefix(url(7), "https://"), content)
		if err := verify(amazon.SNS(), url(7), m); !errors.Is(err, hooks.ErrSignature) {
			t.Errorf("%s: got %v, want ErrSignature", name, err)
		}
	}
	if err := verify(amazon.SNS(), url(8), m); !errors.Is(err, hooks.ErrSignature) {
		t.Errorf("none there: got %v, want ErrSignature", err)
	}
	amazon.Set(strings.TrimPrefix(url(9), "https://"), bytes.Repeat([]byte("x"), 100_000))
	if err := verify(amazon.SNS(), url(9), m); err == nil || errors.Is(err, hooks.ErrSignature) {
		t.Errorf("a large one: got %v, want that it can't be had", err)
	}
	guarded := webhook.NewHTTPClient(webhook.Config{})
	defer guarded.CloseIdleConnections()
	if err := hooks.NewSNS(guarded, nil).Visit(t.Context(), "https://127.0.0.1/"); !errors.Is(err, webhook.ErrBlocked) {
		t.Errorf("a private address: got %v, want ErrBlocked", err)
	}
	lonely := webhook.NewHTTPClient(webhook.Config{Resolver: &net.Resolver{PreferGo: true, Dial: nobody}})
	defer lonely.CloseIdleConnections()
	if err := verify(hooks.NewSNS(lonely, nil), snstest.CertURL, m); err == nil || errors.Is(err, hooks.ErrSignature) || strings.Contains(err.Error(), snstest.CertURL) {
		t.Errorf("nobody there: got %v, want that it can't be had", err)
	}
}

// TestSNSMessageIsReadOneWay: a line in the message that looks like a member makes no other message of it.
func TestSNSMessageIsReadOneWay(t *testing.T) {
	t.Parallel()
	amazon := snstest.New(t)
	sns, now := amazon.SNS(), time.Now()
	m := snstest.Notification("real", now)
	delete(m, "Subject")
	m["Message"] = "a\nMessageId\nforged\nSubject\nb"
	m.Sign(t, amazon.Key, "2")
	forged := maps.Clone(m)
	forged["Message"], forged["MessageId"], forged["Subject"] = "a", "forged", "b\nMessageId\nreal" // the same text is signed
	for what, body := range map[string]snstest.Message{"the message": m, "forged": forged} {
		d, err := sns.Verify(t.Context(), snsSettings, hooks.Request{Body: body.Bytes(t)}, now)
		if (err == nil) != (d.ID == "real") || (what == "forged") != errors.Is(err, hooks.ErrSignature) {
			t.Errorf("%s: got %+v, %v", what, d, err)
		}
	}
}

// TestSNSVisits: a subscription is confirmed at Amazon's, for the hook's own topic.
func TestSNSVisits(t *testing.T) {
	t.Parallel()
	amazon := snstest.New(t)
	sns, now := amazon.SNS(), time.Now()
	const query = "Action=ConfirmSubscription&TopicArn=" + snstest.Topic + "&Token=1"
	for _, url := range []string{
		"https://evil.com/?" + query, "https://" + snstest.Host + ".evil.com/?" + query, "https://" + snstest.Host + ":444/?" + query, "https://x@" + snstest.Host + "/?" + query,
		"http://" + snstest.Host + "/?" + query, "https://" + snstest.Host + "/x?" + query, "https://" + snstest.Host + "/?Action=Unsubscribe&TopicArn=" + snstest.Topic,
		"https://" + snstest.Host + "/?" + query + "x&TopicArn=other", "https://" + snstest.Host + "/?" + query + "&Action=Publish", "https://" + snstest.Host + "/?Action=ConfirmSubscription&TopicArn=other", "https://" + snstest.Host + "/?" + query + "#x",
	} {
		m := snstest.Confirmation("SubscriptionConfirmation", "c", now)
		m["SubscribeURL"] = url
		if d, err := sns.Verify(t.Context(), snsSettings, hooks.Request{Body: m.Sign(t, amazon.Key, "1")}, now); !errors.Is(err, hooks.ErrSignature) {
			t.Errorf("%s: got %+v, %v, want ErrSignature", url, d, err)
		}
	}
	if err := sns.Visit(t.Context(), "https://"+snstest.Host+"/?"+query); err == nil || strings.Contains(err.Error(), "Token") {
		t.Errorf("got %v, want that Amazon refused, without the token", err)
	}
	amazon.Set(snstest.Host+"/", []byte("<ConfirmSubscriptionResponse/>"))
	if err := sns.Visit(t.Context(), "https://"+snstest.Host+"/?"+query); err != nil {
		t.Error(err)
	}
}

// FuzzSNS: of what a stranger makes of Amazon's messages nothing is verified that Amazon didn't sign.
func FuzzSNS(f *testing.F) {
	amazon := snstest.New(f)
	sns, now := amazon.SNS(), time.Now()
	signed := map[string]snstest.Message{}
	for _, m := range []snstest.Message{snstest.Notification("n-1", now), snstest.Confirmation("SubscriptionConfirmation", "c-1", now), snstest.Confirmation("UnsubscribeConfirmation", "u-1", now)} {
		for _, version := range []string{"1", "2"} {
			f.Add(m.Sign(f, amazon.Key, version))
		}
		signed[fmt.Sprint(m["MessageId"])] = m
	}
	f.Add([]byte(`{"Type":"Notification","Type":"SubscriptionConfirmation"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := sns.Verify(t.Context(), snsSettings, hooks.Request{Body: body, Header: http.Header{}}, now)
		if err != nil {
			return
		}
		m := signed[d.ID]
		for name, value := range d.Body {
			if m == nil || m[name] != value {
				t.Errorf("verified %s: %q, want %v", name, value, m)
			}
		}
	})
}

// nobody is a name server that does not answer.
func nobody(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("there is no network")
}

// TestSNSKeysAreBounded: keys are remembered for a day, and so many at most: the oldest goes.
func TestSNSKeysAreBounded(t *testing.T) {
	t.Parallel()
	amazon := snstest.New(t)
	sns, now := amazon.SNS(), time.Now()
	path := func(i int) string { return fmt.Sprintf("%s/SimpleNotificationService-%d.pem", snstest.Host, i) }
	certificate := amazon.Get(strings.TrimPrefix(snstest.CertURL, "https://"))
	verify := func(i int, now time.Time) error {
		m := snstest.Notification("n", now)
		m["SigningCertURL"] = "https://" + path(i)
		_, err := sns.Verify(t.Context(), snsSettings, hooks.Request{Body: m.Sign(t, amazon.Key, "2")}, now)
		return err
	}
	fetched := func(i int) int {
		return len(slices.DeleteFunc(amazon.Asked(), func(at string) bool { return at != path(i) }))
	}
	const most = 64
	for i := range most + 1 {
		amazon.Set(path(i), certificate)
		for range 2 {
			if err := verify(i, now); err != nil {
				t.Fatalf("certificate %d: %v", i, err)
			}
		}
		if n := fetched(i); n != 1 {
			t.Fatalf("certificate %d was fetched %d times", i, n)
		}
	}
	for i, want := range map[int]int{0: 2, most: 1} { // the oldest was forgotten, the newest was not
		if err := verify(i, now); err != nil || fetched(i) != want {
			t.Errorf("certificate %d was fetched %d times, %v, want %d", i, fetched(i), err, want)
		}
	}
	for life, want := range map[time.Duration]int{23 * time.Hour: 1, 25 * time.Hour: 2} {
		sns = amazon.SNS()
		before := fetched(1)
		if err := errors.Join(verify(1, now), verify(1, now.Add(life))); err != nil || fetched(1)-before != want {
			t.Errorf("%s later: fetched %d times, %v, want %d", life, fetched(1)-before, err, want)
		}
	}
}

// TestSNSPermit: nothing is fetched for a request before it may be, and a key that is known needs no fetch.
func TestSNSPermit(t *testing.T) {
	t.Parallel()
	amazon := snstest.New(t)
	sns, now := amazon.SNS(), time.Now()
	refused, asked := errors.New("no more requests this minute"), 0
	body := snstest.Notification("n", now).Sign(t, amazon.Key, "2")
	verify := func(answer error) error {
		_, err := sns.Verify(t.Context(), snsSettings, hooks.Request{Body: body, Permit: func() error { asked++; return answer }}, now)
		return err
	}
	if err := verify(refused); !errors.Is(err, refused) || len(amazon.Asked()) != 0 {
		t.Errorf("got %v, and Amazon was asked for %q, want nothing", err, amazon.Asked())
	}
	if err := errors.Join(verify(nil), verify(refused)); err != nil || asked != 2 {
		t.Errorf("got %v, asked %d times, want the second by the key that is known", err, asked)
	}
}
