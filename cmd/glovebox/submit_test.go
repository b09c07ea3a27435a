package main

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestSubmitSaysWhatItWaitsFor: whoever waits for a job that no worker takes is told so.
func TestSubmitSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	var stdout, stderr gbtest.Buffer
	a := b.app("print(1)", &stdout, &stderr)
	code := make(chan int)
	go func() { code <- a.run(t.Context(), []string{"submit", "--runtime", "python", "--wait", "-"}) }()
	gbtest.Eventually(t, "it says what it waits for", func() bool { return strings.Contains(stderr.String(), "it waits: no worker lives\n") })
	page, err := b.Client.List(t.Context(), producer.ListOptions{Status: []job.Status{job.Queued}})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("got %+v, %v, want one job", page, err)
	}
	if _, err := b.Client.Cancel(t.Context(), page.Jobs[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != exitFailed {
		t.Errorf("once it is canceled: got exit code %d, %q", got, stderr.String())
	}
}
