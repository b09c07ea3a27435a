package tools

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"short", "short"},
		{"0123456789", "0123456789"},
		{"0123456789a", "01234\n… 1 bytes are left out here …\n6789a"},
		{"ééééééé", "éé\n… 6 bytes are left out here …\néé"},
	} {
		if got := cut(c.text, 10); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// TestDescribeShown: what an execution showed is told once, printed or not.
func TestDescribeShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ stdout, stderr, want string }{
		"printed":     {"first\n42\n", "Traceback\nE: no\n", "status: failed\nstdout:\nfirst\n42\nstderr:\nTraceback\nE: no\njob_id: x\n"},
		"not printed": {"first\n", "", "status: failed\nstdout:\nfirst\nvalue:\n42\ntraceback:\nTraceback\nE: no\njob_id: x\n"},
	} {
		r := &job.Result{
			ID: "x", Status: job.Failed, Stdout: c.stdout, Stderr: c.stderr, Exception: &job.Exception{Name: "E", Value: "no", Traceback: "Traceback\nE: no\n"},
			Results: []job.Shown{{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"text/plain": {Text: "7"}}}, {Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": {Text: "42"}}}},
		}
		a := Caller{}.answer(t.Context(), producer.Job{Summary: job.Summary{ID: "x", Status: job.Failed}, Result: r})
		if a.Content[0].Text != c.want || a.Outcome.Value != "42" || a.Outcome.Exception != "E: no" {
			t.Errorf("%s: got %q and %+v", name, a.Content[0].Text, a.Outcome)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("a text", 3)
	f.Add(strings.Repeat("é", 50), 21)
	f.Fuzz(func(t *testing.T, text string, most int) {
		text = strings.ToValidUTF8(text, "?") // as JSON's decoder leaves it
		most = max(most, 8)
		got := cut(text, most)
		if !utf8.ValidString(got) || len(got) > most+60 {
			t.Errorf("%q at most %d: got %q", text, most, got)
		}
	})
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		"\n \n":                          "",
		"one":                            "one",
		"one\ntwo\n":                     "two",
		"one\r\ntwo\r\n\n":               "two",
		strings.Repeat("é", maxProgress): strings.Repeat("é", maxProgress/2),
	} {
		if got := lastLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzArguments: whatever a model sends, a call that is wrong says what is allowed in its place.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"job_id":"x"}`))
	f.Add([]byte(`{"code":1}`))
	f.Add([]byte(`{} {}`))
	f.Add([]byte(`{"code":"\udc80"}`))
	f.Fuzz(func(t *testing.T, arguments []byte) {
		if _, err := decode[runCodeArguments](arguments); err != nil && !strings.Contains(err.Error(), "; allowed: ") {
			t.Errorf("got %v", err)
		}
	})
}
