package producer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// hooks is the contract of producer.Hooks.
func (s suite) hooks(t *testing.T) {
	own, others := s.jobs.(producer.Hooks), s.other.(producer.Hooks)
	ctx := t.Context()
	if list, err := own.ListHooks(ctx); err != nil || list == nil || len(list) > 0 {
		t.Errorf("got %v, %v, want an empty list", list, err)
	}
	request := producer.TemplateRequest{}
	request.Spec.Spec = job.Spec{Runtime: "python", Source: "1"}
	request.Spec.Files = []job.TemplateFile{{File: job.File{Name: "data.json"}, Content: job.Value{Text: "{}"}}}
	if _, err := s.jobs.(producer.Templates).SetTemplate(ctx, "hooked", request); err != nil {
		t.Fatal(err)
	}
	settings := job.HookSettings{Template: "hooked", Sender: job.SenderGitHub, Body: job.BodyStdin}
	made, err := own.CreateHook(ctx, producer.HookRequest{HookSettings: settings})
	if err != nil || len(made.Secret) < 26 || made.Path != "/v1/hooks/"+made.ID || len(made.Secrets) != 1 {
		t.Fatalf("got %+v, %v", made, err)
	}
	if _, err := others.CreateHook(ctx, producer.HookRequest{HookSettings: settings}); !errors.As(err, new(job.Invalid)) {
		t.Errorf("of another's template: got %v", err)
	}
	clashing := settings
	clashing.Body = "data.json"
	if _, err := own.CreateHook(ctx, producer.HookRequest{HookSettings: clashing}); !errors.As(err, new(job.Invalid)) {
		t.Errorf("of a body under the name of a file of the template: got %v", err)
	}
	if _, err := own.ChangeHook(ctx, made.ID, clashing); !errors.As(err, new(job.Invalid)) {
		t.Errorf("of a change to that: got %v", err)
	}
	settings.Paused, settings.Template = true, "hooked@1"
	changed, err := own.ChangeHook(ctx, made.ID, settings)
	if err != nil || !changed.Paused || changed.Template != "hooked@1" || !changed.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("got %+v, %v", changed, err)
	}
	if got, err := own.Hook(ctx, made.ID); err != nil || cmp.Diff(changed, got) != "" {
		t.Errorf("got %+v, %v: %s", got, err, cmp.Diff(changed, got))
	}
	hour := int64(3600)
	rotated, err := own.RotateHook(ctx, made.ID, producer.HookRotateRequest{ExpireSeconds: &hour})
	if err != nil || rotated.Secret == made.Secret || len(rotated.Secrets) != 2 || rotated.Secrets[0].ExpiresAt != nil ||
		rotated.Secrets[1].ExpiresAt == nil || time.Until(*rotated.Secrets[1].ExpiresAt) > time.Hour || time.Until(*rotated.Secrets[1].ExpiresAt) < 59*time.Minute {
		t.Errorf("got %+v, %v", rotated, err)
	}
	if _, err := own.RotateHook(ctx, made.ID, producer.HookRotateRequest{}); !errors.Is(err, job.ErrRotating) {
		t.Errorf("while two are good: got %v, want ErrRotating", err)
	}
	long := int64(8 * 24 * 3600)
	if _, err := own.RotateHook(ctx, made.ID, producer.HookRotateRequest{ExpireSeconds: &long}); !errors.As(err, new(job.Invalid)) {
		t.Errorf("got %v, want expire_seconds to be wrong", err)
	}
	if list, err := own.HookDeliveries(ctx, made.ID); err != nil || list == nil || len(list) > 0 {
		t.Errorf("got %v, %v, want an empty list", list, err)
	}
	if list, err := own.ListHooks(ctx); err != nil || len(list) != 1 || list[0].ID != made.ID {
		t.Errorf("got %+v, %v", list, err)
	}
	if list, err := others.ListHooks(ctx); err != nil || len(list) != 0 {
		t.Errorf("another tenant's: got %+v, %v", list, err)
	}
	if err := others.DeleteHook(ctx, made.ID); !errors.Is(err, job.ErrNoHook) {
		t.Errorf("another tenant: got %v, want ErrNoHook", err)
	}
	if err := own.DeleteHook(ctx, made.ID); err != nil {
		t.Error(err)
	}
	for _, id := range []string{made.ID, "..", ""} {
		if _, err := own.Hook(ctx, id); !errors.Is(err, job.ErrNoHook) {
			t.Errorf("%q: got %v, want ErrNoHook", id, err)
		}
	}
}
