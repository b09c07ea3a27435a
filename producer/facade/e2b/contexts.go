package e2b

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// envdContext is the context in which files are read and commands run. Clients don't see it.
const envdContext = "envd"

// shownContext is a context as clients see it.
type shownContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	CWD      string `json:"cwd"`
}

// noContext is what clients are told of a context that is not there.
func noContext(id string) error {
	return statusError{http.StatusNotFound, fmt.Sprintf("Context %s not found", job.Clip(id, 100))}
}

// contextsOf are a session's contexts, in the order in which they were made, without that of envd.
func contextsOf(ctx context.Context, c *facade.Call, x job.Session) ([]job.SessionContext, error) {
	list, err := c.Client.SessionContexts(ctx, x.ID)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(of job.SessionContext) bool { return of.Name == envdContext })
	slices.SortStableFunc(list, func(a, b job.SessionContext) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// place has an execution take place in the context that is asked for, and returns its language. A language means its own context,
// which is made with its first execution; that of the session's own is its main one.
func place(ctx context.Context, c *facade.Call, x job.Session, e *job.SessionExecution, contextID, language string) (string, error) {
	if contextID != "" && contextID != job.MainContext {
		list, err := contextsOf(ctx, c, x)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(list, func(of job.SessionContext) bool { return of.Name == contextID })
		if i >= 0 {
			e.Context = contextID
			return theirs(list[i].Language), nil
		}
		if !isDefault(contextID, x) {
			return "", noContext(contextID)
		}
		language = contextID
	}
	main := mainLanguage(x)
	if language == "" {
		return main, nil
	}
	l, err := interpreterNamed(language)
	if err != nil {
		return "", err
	}
	if l.names[0] != main {
		e.Context, e.Language = l.names[0], l.names[0]
	}
	return l.names[0], nil
}

// inEnvd has an execution take place in envd's context.
func inEnvd(x job.Session, e *job.SessionExecution) {
	e.Context = envdContext
	if mainLanguage(x) != "python" {
		e.Language = "python"
	}
}

// mainLanguage is that of a session's main context.
func mainLanguage(x job.Session) string {
	if x.Runtime == multi {
		return "python"
	}
	return theirs(x.Runtime)
}

// theirs is how E2B calls a language of ours.
func theirs(language string) string {
	for _, l := range interpreters {
		if l.runtime == language {
			return l.names[0]
		}
	}
	return language
}

// isDefault reports whether a context is there for clients though nothing was executed in it: JavaScript's, beside Python's.
func isDefault(id string, x job.Session) bool { return x.Runtime == multi && id == "javascript" }

// shownOf is a context as clients see it.
func shownOf(of job.SessionContext, x job.Session) shownContext {
	language := theirs(of.Language)
	if of.Name == job.MainContext {
		language = mainLanguage(x)
	}
	cwd := home
	if of.Directory != "" {
		cwd += "/" + of.Directory
	}
	return shownContext{of.Name, language, cwd}
}

func listContexts(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	x, err := sandboxOf(ctx, r, c)
	var list []job.SessionContext
	if err == nil {
		list, err = contextsOf(ctx, c, x)
	}
	if err != nil {
		fail(w, r, c, err)
		return
	}
	told := []shownContext{}
	if !slices.ContainsFunc(list, func(of job.SessionContext) bool { return of.Name == job.MainContext }) {
		told = append(told, shownOf(job.SessionContext{Name: job.MainContext}, x))
	}
	for _, of := range list {
		told = append(told, shownOf(of, x))
	}
	if x.Runtime == multi { // from the start, after Python's
		told = slices.DeleteFunc(told, func(of shownContext) bool { return isDefault(of.ID, x) })
		told = slices.Insert(told, 1, shownOf(job.SessionContext{Name: "javascript", Language: "javascript"}, x))
	}
	facade.Write(w, http.StatusOK, told)
}

// createContext makes a context, whose interpreter starts with the first code.
func createContext(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	x, err := sandboxOf(ctx, r, c)
	var settings job.ContextSettings
	if err == nil {
		settings, err = contextSettings(ctx, r, c, x)
	}
	if err != nil {
		fail(w, r, c, err)
		return
	}
	made, err := c.Client.MakeContext(ctx, x.ID, "c"+strings.ToLower(rand.Text()), settings)
	if err != nil {
		fail(w, r, c, contextFault(err, ""))
		return
	}
	c.Host.Note(x.ID)
	facade.Write(w, http.StatusOK, shownOf(made, x))
}

// contextSettings reads what a context is to be.
func contextSettings(ctx context.Context, r *http.Request, c *facade.Call, x job.Session) (s job.ContextSettings, err error) {
	q, err := readRequest(ctx, r, c)
	if err != nil {
		return s, err
	}
	language, err := q.text("language")
	if err != nil {
		return s, err
	}
	cwd, err := q.text("cwd")
	if err != nil {
		return s, err
	}
	if language != "" {
		l, err := interpreterNamed(language)
		if err != nil {
			return s, err
		}
		if l.names[0] != mainLanguage(x) {
			s.Language = l.names[0]
		}
	}
	if cwd == "" {
		return s, nil
	}
	if cwd, err = absolute(cwd); err != nil || cwd == home || cwd == "/work" {
		return s, err
	}
	var ok bool
	if s.Directory, ok = ours(cwd); !ok {
		return s, facade.BadRequest(fmt.Sprintf("cwd is %s: want a directory below %s", job.Clip(cwd, 100), home))
	}
	return s, nil
}

// contextFault is what clients are told of an error with a context.
func contextFault(err error, id string) error {
	switch job.CodeOf(err) {
	case job.CodeNoContext:
		return noContext(id)
	case job.CodeTooManyContexts:
		return statusError{http.StatusTooManyRequests, err.Error()}
	}
	return executionFault(err)
}

func removeContext(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	changeContext(w, r, c, func(ctx context.Context, x job.Session, id string) error {
		if id == job.MainContext { // a session always has it
			_, err := c.Client.RestartSession(ctx, x.ID, job.Restart{Context: id})
			return err
		}
		return c.Client.DeleteContext(ctx, x.ID, id)
	})
}

func restartContext(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	changeContext(w, r, c, func(ctx context.Context, x job.Session, id string) error {
		_, err := c.Client.RestartSession(ctx, x.ID, job.Restart{Context: id})
		return err
	})
}

// changeContext does something to a context that is there. With a default that has not executed anything there is nothing to be done.
func changeContext(w http.ResponseWriter, r *http.Request, c *facade.Call, do func(context.Context, job.Session, string) error) {
	ctx, id := r.Context(), r.PathValue("id")
	x, err := sandboxOf(ctx, r, c)
	if err == nil {
		err = noContext(id)
		if job.ValidContext(id) && id != envdContext {
			c.Host.Note(x.ID)
			err = do(ctx, x, id)
		}
		if errors.As(err, new(*job.Error)) {
			err = contextFault(err, id)
		}
		if isDefault(id, x) && errors.Is(err, noContext(id)) {
			err = nil
		}
	}
	if err != nil {
		fail(w, r, c, err)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lineTime)) // else the connection is gone
	facade.Write(w, http.StatusOK, nil)
}
