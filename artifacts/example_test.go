package artifacts_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
)

func ExampleJobKeys() {
	keys, err := artifacts.JobKeys("acme", "j7")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(keys.Artifact(1, "sales 2026.png"))
	// Output: tenants/acme/jobs/j7/1/artifacts/sales~202026.png
}

func ExampleTokens() {
	tokens, err := artifacts.NewTokens(artifacts.TokenKey{ID: "k1", Secret: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	token, err := tokens.Sign(artifacts.Capability{
		Tenant: "acme", Job: "j7", Path: "artifacts/plot.png", Expires: now.Add(time.Hour),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := tokens.Verify(token, "j7", "artifacts/plot.png", now)
	fmt.Println(c.Tenant, err)
	_, err = tokens.Verify(token, "j7", "artifacts/plot.png", now.Add(time.Hour))
	fmt.Println(err)
	// Output:
	// acme <nil>
	// artifact token has expired
}
