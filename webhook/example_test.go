package webhook_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/glovebox-run/glovebox/webhook"
)

// A receiver: verify, then use.
func ExampleHandler() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	receiver := httptest.NewServer(webhook.Handler([]webhook.Verifier{secret}, func(_ context.Context, e webhook.Event) error {
		fmt.Println(e.ID, e.Type, string(e.Data))
		return nil
	}))
	defer receiver.Close()

	loopback, err := webhook.ParseTarget("127.0.0.0/8:*")
	if err != nil {
		fmt.Println(err)
		return
	}
	sender := webhook.New(webhook.Config{Guard: webhook.NewGuard(webhook.GuardConfig{Allow: []webhook.Target{loopback}})})
	defer sender.Close()
	answer, err := sender.Send(context.Background(), webhook.Request{
		URL: receiver.URL, ID: "msg_1", Timestamp: time.Now(), Signers: []webhook.Signer{secret},
		Body: []byte(`{"type":"job.completed","data":{"id":"j1"}}`),
	})
	fmt.Println(answer.Status, err)
	// Output:
	// msg_1 job.completed {"id":"j1"}
	// 204 <nil>
}

func ExampleVerify() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1614265330, 0)
	headers, err := webhook.Sign([]webhook.Signer{secret}, "msg_1", now, []byte("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	verifiers := []webhook.Verifier{secret}
	fmt.Println(webhook.Verify(headers, []byte("{}"), verifiers, webhook.DefaultTolerance, now))
	fmt.Println(webhook.Verify(headers, []byte("[]"), verifiers, webhook.DefaultTolerance, now))
	// Output:
	// <nil>
	// no signature of the webhook is valid
}

// A receiver that holds no secret: with a public key it can verify, and nobody can sign.
func ExampleParseVerifiers() {
	key, err := webhook.ParsePrivateKey("whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=") // the sender's
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	headers, err := webhook.Sign([]webhook.Signer{webhook.NewSecret(), key}, "msg_1", now, []byte("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	verifiers, err := webhook.ParseVerifiers(key.Public().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(verifiers, webhook.Verify(headers, []byte("{}"), verifiers, webhook.DefaultTolerance, now))
	// Output: [whpk_ZlN4eg7dSSqi0moX9hQUk3orrOouK3QVQSlJa248c/g=] <nil>
}

func ExampleSecret() {
	secret := webhook.NewSecret()
	fmt.Println(secret, len(secret.Reveal()))
	// Output: whsec_… 50
}

func ExampleSender() {
	sender := webhook.New(webhook.Config{})
	defer sender.Close()
	_, err := sender.Send(context.Background(), webhook.Request{
		URL: "http://169.254.169.254/latest/meta-data", ID: "msg_1", Timestamp: time.Now(),
		Signers: []webhook.Signer{webhook.NewSecret()},
	})
	fmt.Println(err)
	// Output: the address 169.254.169.254 is not allowed: webhooks go to public addresses, ports 80, 443
}

func ExampleSchedule() {
	s := webhook.Schedule{Delays: []time.Duration{0, 5 * time.Second}}
	for attempts := range 3 {
		fmt.Println(s.Next(attempts))
	}
	// Output:
	// 0s true
	// 5s true
	// 0s false
}

func ExampleParseTarget() {
	target, err := webhook.ParseTarget("10.0.0.1/8:443")
	fmt.Println(target, err)
	target, err = webhook.ParseTarget("10.0.0.0/8:443")
	fmt.Println(target, err)
	// Output:
	// invalid Prefix:0 read allowed target "10.0.0.1/8:443": the address has bits beyond its prefix; did you mean 10.0.0.0/8?; write ADDRESS[/BITS]:PORTS as in 10.0.0.0/8:443, [fd00::/8]:8000-8999 or 127.0.0.1:*
	// 10.0.0.0/8:443 <nil>
}
