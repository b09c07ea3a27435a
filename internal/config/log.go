package config

import (
	"context"
	"io"
	"log/slog"

	"github.com/glovebox-run/glovebox/job"
)

// Logger writes to w as GLOVEBOX_LOG asks: "json" or "text". What is said of a job
// or a batch names its tenant, too.
func Logger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(tenants{slog.NewJSONHandler(w, nil)})
	}
	return slog.New(tenants{slog.NewTextHandler(w, nil)})
}

// tenants adds the tenant beside each job_id and batch_id, whose beginning it is.
type tenants struct{ slog.Handler }

func (h tenants) Handle(ctx context.Context, r slog.Record) error {
	var found []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		found = appendTenant(found, a)
		return true
	})
	if len(found) > 0 {
		r = r.Clone()
		r.AddAttrs(found...)
	}
	return h.Handler.Handle(ctx, r)
}

func (h tenants) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		attrs = appendTenant(attrs[:len(attrs):len(attrs)], a)
	}
	return tenants{h.Handler.WithAttrs(attrs)}
}

func (h tenants) WithGroup(name string) slog.Handler { return tenants{h.Handler.WithGroup(name)} }

func appendTenant(to []slog.Attr, a slog.Attr) []slog.Attr {
	var of func(string) (string, bool)
	switch a.Key {
	case "job_id":
		of = job.TenantOf
	case "batch_id":
		of = job.TenantOfBatch
	}
	if of == nil || a.Value.Kind() != slog.KindString {
		return to
	}
	if tenant, ok := of(a.Value.String()); ok {
		to = append(to, slog.String("tenant", tenant))
	}
	return to
}
