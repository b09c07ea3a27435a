package record

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Place is where in its session an execution is executed.
type Place struct {
	// Context is "" for the main one.
	Context string `json:"context,omitempty"`
	// Language is the context's; "" is the runtime's own, that of the main one.
	Language string `json:"language,omitempty"`
}

// placedSpec is what an execution is given, and where, as records keep it and decisions are about.
type placedSpec struct {
	job.Spec
	Place
}

// MarshalExecution encodes what an execution is given, and where.
func MarshalExecution(spec job.Spec, at Place) ([]byte, error) {
	b, err := job.Marshal(placedSpec{spec, at})
	if err != nil {
		return nil, fmt.Errorf("encode spec: %w", err)
	}
	return b, nil
}

// UnmarshalExecution decodes it.
func UnmarshalExecution(b []byte) (*job.Spec, Place, error) {
	var p placedSpec
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, Place{}, fmt.Errorf("decode spec: %w", err)
	}
	return &p.Spec, p.Place, nil
}

// readContexts reads a session's contexts.
func (x *Session) readContexts(r *fields) {
	for _, name := range append([]string{job.MainContext}, strings.Fields(r.f["contexts"])...) {
		of := "context:" + name + ":"
		c := job.SessionContext{
			Name: name, Language: r.f[of+"language"], Directory: r.f[of+"directory"], Generation: int(r.number(of + "generation")),
			Executions: r.number(of + "executions"), CreatedAt: r.at(of + "created"),
		}
		if name == job.MainContext {
			c.Generation, c.CreatedAt = x.Generation, x.Created
		}
		x.Contexts = append(x.Contexts, c)
	}
}

// Context returns one of the session's contexts.
func (x Session) Context(name string) (job.SessionContext, bool) {
	for _, c := range x.Contexts {
		if c.Name == name {
			return c, true
		}
	}
	return job.SessionContext{}, false
}

// readTaken reads what take_turn says of a session's contexts.
func (j *Record) readTaken(generation, contexts any) error {
	own, _ := generation.(string)
	words, _ := contexts.([]any)
	var err error
	if j.Generation, err = strconv.Atoi(own); err != nil {
		return fmt.Errorf("read generation: %w: %w", ErrUnreadable, err)
	}
	for ; len(words) >= 4; words = words[4:] {
		var text [4]string
		for i := range text {
			text[i], _ = words[i].(string)
		}
		c := job.SessionContext{Name: text[0], Language: text[2], Directory: text[3]}
		if c.Generation, err = strconv.Atoi(text[1]); err != nil {
			return fmt.Errorf("read generation: %w: %w", ErrUnreadable, err)
		}
		j.Contexts = append(j.Contexts, c)
	}
	return nil
}

// MakeContext makes a context of a session that has that language. Where it is there already, it stays as it is. It fails with job.ErrNoSession, with
// job.Invalid where it is there and has another language or directory, with a *job.Error where the session has ended, has as many as it may, or beyond the tenant's quotas.
func (s *Store) MakeContext(ctx context.Context, id, name string, settings job.ContextSettings) error {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return job.ErrNoSession
	}
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return fmt.Errorf("make context: %w", err)
	}
	word, err := makeContextScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": id, "now": s.now(), "name": name, "language": settings.Language, "directory": settings.Directory, "most_recorded": s.mostRecorded(terms),
	}).Text()
	if err != nil {
		return fmt.Errorf("make context: %w", err)
	}
	if word == "bytes_recorded" {
		return overRecorded(s.mostRecorded(terms))
	}
	return s.contextRefused(ctx, id, name, settings, word)
}

// contextRefused is what the word of a script says of a context.
func (s *Store) contextRefused(ctx context.Context, id, name string, settings job.ContextSettings, word string) error {
	word, is, _ := strings.Cut(word, " ")
	switch word {
	case "ok":
		return nil
	case "missing":
		return job.ErrNoSession
	case "ended":
		return s.sessionEnded(ctx, id)
	case "none":
		return job.ErrNoContext
	case "contexts":
		return job.ErrTooManyContexts
	case "language":
		return job.Invalid{{Field: "language", Value: settings.Language, Message: "is not that of the context " + name, Allowed: is + ", or none"}}
	case "directory":
		return job.Invalid{{Field: "directory", Value: settings.Directory, Message: "is not that of the context " + name, Allowed: strconv.Quote(is)}}
	}
	return fmt.Errorf("context %s: the script answered %q", name, word)
}

// ForgetContext forgets a context of a session, and has its interpreter ended. It fails with job.ErrNoSession, job.ErrNoContext, or where the session has ended.
func (s *Store) ForgetContext(ctx context.Context, id, name string) error {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return job.ErrNoSession
	}
	word, err := forgetContextScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "name": name}).Text()
	if err != nil {
		return fmt.Errorf("forget context: %w", err)
	}
	return s.contextRefused(ctx, id, name, job.ContextSettings{}, word)
}

// RestartContext has what is executed next in a context executed by a new interpreter, and what is executed there now ended with the old one. With an execution it
// does nothing unless the session executes that now. It fails as ForgetContext does.
func (s *Store) RestartContext(ctx context.Context, id, name, execution string) error {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return job.ErrNoSession
	}
	word, err := restartContextScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "name": name, "execution": execution}).Text()
	if err != nil {
		return fmt.Errorf("restart context: %w", err)
	}
	return s.contextRefused(ctx, id, name, job.ContextSettings{}, word)
}
