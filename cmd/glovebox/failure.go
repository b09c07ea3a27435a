package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// The exit codes, as the root command's help documents them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitGlovebox    = 3
	exitGoesOn      = 4
	exitInterrupted = 130
)

// failure is an error with an exit code, and a hint at what to do about it.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usagef(format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// silent is an exit code about which everything has been said.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// report prints what went wrong, and what to do, and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	var quiet silent
	if err == nil {
		return exitOK
	}
	if errors.As(err, &quiet) {
		return int(quiet)
	}
	f := a.classify(err)
	interrupted := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if interrupted && f.hint == "" { // whoever did it knows
		return exitInterrupted
	}
	fmt.Fprintf(a.stderr, "glovebox: %s\n", strings.ReplaceAll(f.Error(), "\n", "\n          "))
	if f.hint != "" {
		fmt.Fprintf(a.stderr, "          %s\n", strings.ReplaceAll(f.hint, "\n", "\n          "))
	}
	if interrupted {
		return exitInterrupted
	}
	return f.code
}

// classify gives every error that has none a code and a hint.
func (a *app) classify(err error) *failure {
	var f *failure
	var network net.Error // which an error of the file system's looks like
	switch {
	case errors.As(err, &f):
		return f
	case !a.entered:
		return &failure{exitUsage, err, `"glovebox help" lists the commands, "glovebox help COMMAND" explains one`}
	case job.CodeOf(err) != "":
		return a.classifySaid(err)
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(*os.LinkError)):
		return &failure{exitFailed, err, ""}
	case errors.As(err, &network):
		return &failure{exitGlovebox, err, `is Glovebox running there? "glovebox dev" starts it on this machine`}
	}
	return &failure{exitFailed, err, ""}
}

// classifySaid gives an error that Glovebox said a code and a hint.
func (a *app) classifySaid(err error) *failure {
	switch job.CodeOf(err) {
	case job.CodeInvalid:
		return &failure{exitUsage, err, ""}
	case job.CodeNoRuntimes:
		return &failure{exitGlovebox, err, `"glovebox dev" starts one; "glovebox doctor" says what it may lack`}
	case job.CodeUnauthorized, job.CodeForbidden, job.CodeMissingScope:
		return &failure{exitGlovebox, err, "the token comes from " + a.token + ", ./.glovebox/env or ~/.config/glovebox/env"}
	case job.CodeRateLimited, job.CodeQuotaExceeded:
		return &failure{exitFailed, err, "try again later; the operator sets the quotas of a tenant"}
	case job.CodeDenied:
		return &failure{exitFailed, err, "a rule of the operator's or of the tenant's refuses it, however often it is submitted"}
	case job.CodeBudgetExceeded:
		return &failure{exitFailed, err, "\"glovebox usage\" shows what is spent; the operator sets the budget"}
	case job.CodeNotFound, job.CodeEnded, job.CodeNotEnded, job.CodeGone, job.CodeNoTenant, job.CodeTenantExists, job.CodeRevision, job.CodeNotDisabled,
		job.CodeNoToken, job.CodeTooManyTokens, job.CodeNoSecret, job.CodeTooManySecrets, job.CodeNoTemplate, job.CodeTooManyTemplates, job.CodeNoProblem, job.CodeTooManyProblems,
		job.CodeNoHook, job.CodeTooManyHooks, job.CodeRotating, job.CodeNotHeld, job.CodeOtherInput, job.CodeNoSchedule, job.CodeTooManySchedules,
		job.CodeNoEndpoint, job.CodeTooManyEndpoints, job.CodePending, job.CodeConflict, job.CodeNotRunning, job.CodeNoInput, job.CodeTooLarge,
		job.CodeSessionEnded, job.CodeSessionBusy, job.CodeUnforkable, job.CodeNoContext, job.CodeTooManyContexts, job.CodeGenerationChanged,
		job.CodeNoFile, job.CodeFileRefused:
		return &failure{exitFailed, err, ""}
	}
	return &failure{exitGlovebox, err, ""}
}
