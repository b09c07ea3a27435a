package job

import (
	"fmt"
	"regexp"
	"time"
)

const (
	// MainContext is the context of a session that each has: the interpreter of its runtime.
	MainContext = "main"
	// MaxContexts is how many a session has at most, with that one.
	MaxContexts = 8
)

var contextForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// contextNames says what ValidContext allows.
const contextNames = "1 to 32 lower-case letters, digits, _ and -, beginning with a letter or digit"

// ValidContext reports whether a context can have that name.
func ValidContext(name string) bool { return contextForm.MatchString(name) }

// CheckContext returns what is wrong with a context's name, as [Invalid] of that field, or nil.
func CheckContext(field, name string) error {
	if ValidContext(name) {
		return nil
	}
	return Invalid{{field, clip(name), "is no name of a context", contextNames}}
}

// ContextSettings are what a new context is to be.
type ContextSettings struct {
	Language  string `json:"language,omitempty" doc:"One of its runtime's languages; the runtime's own by default." example:"javascript"`
	Directory string `json:"directory,omitempty" doc:"Where its interpreter begins to work, below the session's directory; that itself by default. It is made if it is not there." example:"src"`
}

// Check returns what is wrong with the settings of any context, as [Invalid], or nil.
func (s ContextSettings) Check() error {
	if s.Directory == "" {
		return nil
	}
	if problem := CheckName(s.Directory); problem != "" {
		return Invalid{{"directory", clip(s.Directory), problem, "a path below the session's directory, such as src/app"}}
	}
	return nil
}

// Restart says which of a session's interpreters is to be another.
type Restart struct {
	Context string `json:"context,omitempty" doc:"Whose interpreter; main by default." example:"main"`
	// Execution, if set, is what alone is to be ended.
	Execution string `json:"execution,omitempty" doc:"Only if the context executes this now: else nothing is done. The id of an execution."`
}

// Check returns what is wrong with it, as [Invalid], or nil.
func (r Restart) Check() error {
	if _, ok := TenantOf(r.Execution); !ok && r.Execution != "" {
		return Invalid{{Field: "execution", Value: Clip(r.Execution, 80), Message: "is no id of an execution", Allowed: "one, as jobs have it, or nothing"}}
	}
	if r.Context == "" {
		return nil
	}
	return CheckContext("context", r.Context)
}

// SessionContext is one of a session's interpreters.
type SessionContext struct {
	Name      string `json:"name" example:"main"`
	Language  string `json:"language" example:"python"`
	Directory string `json:"directory,omitempty" doc:"Where its interpreter begins to work, below the session's directory; absent for that itself."`
	// Generation is that of the interpreter that executes what comes next.
	Generation int       `json:"generation" doc:"Which interpreter executes what comes next: one more after each that was lost or restarted; 0 for main before its first execution."`
	Executions int64     `json:"executions" doc:"How many have begun in it."`
	CreatedAt  time.Time `json:"created_at"`
}

// GenerationError says that a context has another interpreter than the one that was asked for.
type GenerationError struct {
	Context string
	// Asked is the generation that was asked for, and Generation that of the interpreter that executes what comes next.
	Asked, Generation int
}

func (e *GenerationError) Error() string {
	return fmt.Sprintf("the context %s has generation %d, and %d was asked for: its state was lost, or it was restarted", e.Context, e.Generation, e.Asked)
}

func (e *GenerationError) code() string { return CodeGenerationChanged }
