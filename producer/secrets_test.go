package producer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// secrets is the contract of producer.Secrets.
func (s suite) secrets(t *testing.T) {
	own, others := s.jobs.(producer.Secrets), s.other.(producer.Secrets)
	ctx := t.Context()
	if _, err := own.SetSecret(ctx, "TOKEN", "a value of mine"); !errors.Is(err, job.ErrNoSecretsKey) {
		t.Errorf("without a worker's key: got %v, want ErrNoSecretsKey", err)
	}
	keys := s.w.Secrets(t)
	if list, err := own.ListSecrets(ctx); err != nil || list == nil || len(list) > 0 {
		t.Errorf("got %v, %v, want an empty list", list, err)
	}
	names := func() string {
		t.Helper()
		list, err := own.ListSecrets(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
			if age := time.Since(s.UpdatedAt); age < 0 || age > time.Minute {
				t.Errorf("%s was set at %v", s.Name, s.UpdatedAt)
			}
		}
		return strings.Join(names, " ")
	}
	stored := func(tenant string) string {
		t.Helper()
		sealed, err := secrets.NewStore(s.w.Records.Redis()).Get(ctx, tenant, "TOKEN")
		if err != nil {
			t.Fatal(err)
		}
		value, err := keys.Open(tenant, "TOKEN", sealed)
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	const value = "a \"value\"\nof mine é\u2028"
	for _, name := range []string{"TOKEN", "_second2"} {
		if set, err := own.SetSecret(ctx, name, value); err != nil || set.Name != name {
			t.Fatalf("got %+v, %v", set, err)
		}
	}
	if _, err := others.SetSecret(ctx, "TOKEN", "another's value"); err != nil {
		t.Fatal(err)
	}
	if got := stored("default"); got != value || names() != "TOKEN _second2" {
		t.Errorf("got %q, secrets %s", got, names())
	}
	if _, err := own.SetSecret(ctx, "TOKEN", "a new value"); err != nil || stored("default") != "a new value" || stored("other") != "another's value" {
		t.Errorf("got %q and another's %q, %v", stored("default"), stored("other"), err)
	}

	var invalid job.Invalid
	for _, bad := range [][3]string{
		{"1A", value, "name"},
		{"A-B", value, "name"},
		{strings.Repeat("A", 257), value, "name"},
		{"A", "2short!", "value"},
		{"A", strings.Repeat("x", job.MaxSecretBytes+1), "value"},
		{"A", "nul \x00 in it", "value"},
		{"A", "not \xff UTF-8", "value"},
	} {
		_, err := own.SetSecret(ctx, bad[0], bad[1])
		if !errors.As(err, &invalid) || invalid[0].Field != bad[2] || bad[2] == "value" && strings.Contains(err.Error(), bad[1]) {
			t.Errorf("%.20q, %.20q: got %v, want an error of %s that doesn't echo it", bad[0], bad[1], err, bad[2])
		}
	}
	if _, err := own.SetSecret(ctx, "LONG", strings.Repeat("\x01", job.MaxSecretBytes)); err != nil {
		t.Errorf("the longest: %v", err)
	}

	spec := job.Spec{Runtime: "python", Source: "1", Secrets: []string{"TOKEN", "_second2"}}
	j, err := s.jobs.Submit(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	if r := s.w.Start(t, j.ID); len(r.Spec.Secrets) != 2 || len(r.Spec.Env) > 0 {
		t.Errorf("got %+v, want the names of secrets", r.Spec)
	}
	for field, spec := range map[string]job.Spec{
		"secrets[1]": {Secrets: []string{"TOKEN", "NO_SUCH"}}, "secrets[0]": {Secrets: []string{"TOKEN"}, Env: map[string]string{"TOKEN": "x"}},
		"secrets": {Secrets: make([]string, job.MaxSecrets+1)},
	} {
		spec.Runtime, spec.Source = "python", "1"
		if _, err := s.jobs.Submit(ctx, spec); !errors.As(err, &invalid) || invalid[0].Field != field {
			t.Errorf("%v: got %v, want an error of %s", spec.Secrets, err, field)
		}
	}
	if _, err := s.other.Submit(ctx, spec); !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != "secrets[1]" {
		t.Errorf("another's: got %v, want an error of secrets[1]", err)
	}

	for i := 3; i < job.MaxSecrets; i++ {
		if _, err := own.SetSecret(ctx, fmt.Sprintf("S%d", i), value); err != nil {
			t.Fatalf("secret %d: %v", i, err)
		}
	}
	if _, err := own.SetSecret(ctx, "ONE_MORE", value); !errors.Is(err, job.ErrTooManySecrets) {
		t.Errorf("got %v, want ErrTooManySecrets", err)
	}
	if _, err := own.SetSecret(ctx, "TOKEN", value); err != nil {
		t.Errorf("in the place of one: %v", err)
	}
	for _, name := range []string{"NO_SUCH", "..", "", "a/b"} {
		if err := own.DeleteSecret(ctx, name); !errors.Is(err, job.ErrNoSecret) {
			t.Errorf("delete %q: got %v, want ErrNoSecret", name, err)
		}
	}
	if err := own.DeleteSecret(ctx, "TOKEN"); err != nil || strings.Contains(names(), "TOKEN") || stored("other") != "another's value" {
		t.Errorf("after a deletion: got %s, %v", names(), err)
	}
}
