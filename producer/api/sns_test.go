package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/hooks/snstest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// newSNSWorld is a world whose Amazon is the test's.
func newSNSWorld(t *testing.T) (*world, *snstest.Amazon) {
	t.Helper()
	amazon := snstest.New(t)
	w := newWorldWith(t, func(c *apiConfig) { c.Client = c.Client.WithSNS(amazon.SNS()) })
	w.Runtimes(t)
	return w, amazon
}

// TestSNSHook: a topic's subscription is confirmed, its messages start one job each, and another topic's none.
func TestSNSHook(t *testing.T) {
	t.Parallel()
	w, amazon := newSNSWorld(t)
	const template = `{"params":{"type":"object","required":["message"],"properties":{"message":{"type":"string"},"unsigned":{}}},
		"spec":{"runtime":"python","source":"1","args":[{"from":"/params/message"}]}}`
	if a := w.do(t, "PUT", "/v1/templates/uploads", strings.NewReader(template)); a.status != http.StatusOK {
		t.Fatalf("set template: got %d %s", a.status, a.body)
	}
	const settings = `"template":"uploads","sender":"sns","from":{"message":"/body/Message"}`
	for wrong, field := range map[string]string{
		`{` + settings + `}`: "topic_arn",
		`{` + settings + `,"topic_arn":"arn:aws:sns:us-east-1:123456789012:*"}`:              "topic_arn",
		`{` + settings + `,"topic_arn":"arn:aws:sns:evil.com/:123456789012:uploads"}`:        "topic_arn",
		`{` + settings + `,"topic_arn":"arn:aws:sns:us-east-1:123456789012:uploads.fifo"}`:   "topic_arn",
		`{` + settings + `,"topic_arn":"` + snstest.Topic + `","secret":"a secret of mine"}`: "secret",
		`{"template":"uploads","sender":"github","topic_arn":"` + snstest.Topic + `"}`:       "topic_arn",
	} {
		if a := w.do(t, "POST", "/v1/hooks", strings.NewReader(wrong)); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), `"field":"`+field+`"`) {
			t.Errorf("%s: got %d %s, want %s to be wrong", wrong, a.status, a.body, field)
		}
	}
	a := w.do(t, "POST", "/v1/hooks", strings.NewReader(`{`+settings+`,"topic_arn":"`+snstest.Topic+`"}`))
	var hook producer.NewHook
	if err := json.Unmarshal(a.body, &hook); err != nil || a.status != http.StatusCreated || hook.Secret != "" || len(hook.Secrets) != 0 {
		t.Fatalf("create hook: got %d %s, %v", a.status, a.body, err)
	}
	if a := w.do(t, "POST", hook.Path+"/rotate", strings.NewReader(`{}`)); a.status != http.StatusUnprocessableEntity {
		t.Errorf("rotate: got %d %s, want 422", a.status, a.body)
	}
	post := func(body []byte) answer {
		t.Helper()
		return w.do(t, "POST", hook.Path, strings.NewReader(string(body)), "Authorization: ", "Content-Type: text/plain; charset=UTF-8", "X-Amz-Sns-Message-Type: Notification")
	}
	expect := func(what string, want int, a answer) {
		t.Helper()
		if a.status != want {
			t.Errorf("%s: got %d %s, want %d", what, a.status, a.body, want)
		}
	}
	now := time.Now()
	confirmation := snstest.Confirmation("SubscriptionConfirmation", "c-1", now).Sign(t, amazon.Key, "2")
	expect("while Amazon refuses", http.StatusServiceUnavailable, post(confirmation))
	amazon.Set(snstest.Host+"/", []byte("<ConfirmSubscriptionResponse/>"))
	expect("a subscription", http.StatusOK, post(confirmation))
	visits := slices.DeleteFunc(amazon.Asked(), func(at string) bool { return at != snstest.Host+"/" })
	if len(visits) != 2 {
		t.Errorf("got %q, want two visits", visits)
	}
	body := snstest.Notification("n-1", now).Sign(t, amazon.Key, "1")
	first := started(t, post(body))
	if again := started(t, post(body)); again.JobID != first.JobID || !again.Duplicate {
		t.Errorf("once more: got %+v, want %s", again, first.JobID)
	}
	if spec := w.Start(t, first.JobID).Spec; len(spec.Args) != 1 || spec.Args[0] != "Hello,\nworld! é <&>" || spec.Metadata[job.DeliveryKey] != "n-1" {
		t.Errorf("got %+v", spec)
	}
	other := snstest.Notification("n-2", now)
	other["TopicArn"] = snstest.Topic + "2"
	expect("another topic", http.StatusUnauthorized, post(other.Sign(t, amazon.Key, "2")))
	forged := snstest.Notification("n-3", now)
	forged.Sign(t, amazon.Key, "2")
	forged["Message"] = "forged"
	expect("another message", http.StatusUnauthorized, post(forged.Bytes(t)))
	expect("an old one", http.StatusUnauthorized, post(snstest.Notification("n-4", now.Add(-2*time.Hour)).Sign(t, amazon.Key, "2")))
	foreign := snstest.Notification("n-5", now)
	foreign["SigningCertURL"] = "https://sns.us-east-1.amazonaws.com.evil.com/SimpleNotificationService-1.pem"
	expect("a foreign certificate", http.StatusUnauthorized, post(foreign.Sign(t, amazon.Key, "2")))
	expect("the end", http.StatusOK, post(snstest.Confirmation("UnsubscribeConfirmation", "u-1", now).Sign(t, amazon.Key, "2")))
	if got := jobs(t, w); got != 1 {
		t.Errorf("got %d jobs, want 1", got)
	}
	var outcomes []string
	for _, d := range deliveries(t, w, hook.Path) {
		outcomes = append(outcomes, d.Outcome+" "+d.Delivery)
	}
	if want := []string{"handshake u-1", "duplicate n-1", "started n-1", "handshake c-1", "refused c-1"}; !slices.Equal(outcomes, want) {
		t.Errorf("got deliveries %q, want %q", outcomes, want)
	}
	if visits := slices.DeleteFunc(amazon.Asked(), func(at string) bool { return at != snstest.Host+"/" }); len(visits) != 2 {
		t.Errorf("got %q, want no visit more", visits)
	}
	log := w.log.String()
	if strings.Contains(log, "2336412f37") {
		t.Error("the log has a subscription's token")
	}
	if got := strings.Count(log, `"action":"hook.confirm"`); got != 1 {
		t.Errorf("the audit log has %d confirmed subscriptions, want 1", got)
	}
}

// TestSNSFetchesCount: whoever knows a hook's id and topic makes Glovebox fetch no more certificates than the
// tenant has requests a minute, with messages that nobody signed.
func TestSNSFetchesCount(t *testing.T) {
	t.Parallel()
	w, amazon := newSNSWorld(t)
	const quota = 8
	token, _ := w.tenant(t, "acme", job.Terms{Quotas: job.Quotas{RequestsPerMinute: quota}})
	const template = `{"spec":{"runtime":"python","source":"1"}}`
	if a := w.do(t, "PUT", "/v1/templates/work", strings.NewReader(template), as(token)); a.status != http.StatusOK {
		t.Fatalf("set template: got %d %s", a.status, a.body)
	}
	a := w.do(t, "POST", "/v1/hooks", strings.NewReader(`{"template":"work","sender":"sns","topic_arn":"`+snstest.Topic+`"}`), as(token))
	var hook producer.NewHook
	if err := json.Unmarshal(a.body, &hook); err != nil || a.status != http.StatusCreated {
		t.Fatalf("create hook: got %d %s, %v", a.status, a.body, err)
	}
	refused := 0
	for i := range 5 * quota {
		m := snstest.Notification(fmt.Sprint("n-", i), time.Now())
		m["SigningCertURL"] = fmt.Sprintf("https://%s/SimpleNotificationService-%d.pem", snstest.Host, i)
		body := m.Sign(t, amazon.Key, "2")
		switch a := w.do(t, "POST", hook.Path, strings.NewReader(string(body)), "Authorization: "); a.status {
		case http.StatusUnauthorized: // there is no such certificate
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("got %d %s", a.status, a.body)
		}
	}
	if n := len(amazon.Asked()); n > 2*quota || refused == 0 {
		t.Errorf("%d certificates were asked for, and %d messages refused, want %d at most a minute", n, refused, quota)
	}
}
