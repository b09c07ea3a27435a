package job

import "fmt"

// Codes of the errors that clients return and of the API's problems. A program decides by
// them; [CodeOf] finds the one of an error.
const (
	CodeInvalid          = "invalid" // an [Invalid] says which fields are wrong
	CodeNoRuntimes       = "no_runtimes"
	CodeUnauthorized     = "unauthorized"
	CodeForbidden        = "forbidden"
	CodeMissingScope     = "missing_scope" // the token is not good for this
	CodeNotFound         = "not_found"     // no such job, batch or file
	CodeNoRoute          = "no_route"      // no such path in the API
	CodeEnded            = "ended"
	CodeNotEnded         = "not_ended"            // purge a job that is queued or running
	CodeNotRunning       = "not_running"          // input for a job that waits
	CodeNoInput          = "no_input"             // input for a job that takes none, or no more
	CodeRateLimited      = "rate_limited"         // more requests than the tenant's quota
	CodeQuotaExceeded    = "quota_exceeded"       // more jobs or bytes than the tenant's quotas
	CodeBudgetExceeded   = "budget_exceeded"      // what the tenant's jobs may cost in a month is spent
	CodeConflict         = "idempotency_conflict" // the key is another request's
	CodeGone             = "gone"                 // what the key began is no longer kept
	CodeTooManyWatchers  = "too_many_watchers"    // the tenant watches as many jobs as it may
	CodeNoTenant         = "no_tenant"
	CodeTenantExists     = "tenant_exists"
	CodeRevision         = "revision"     // the terms have changed meanwhile
	CodeNotDisabled      = "not_disabled" // the tenant whose jobs are to be stopped
	CodeNoToken          = "no_token"
	CodeTooManyTokens    = "too_many_tokens"
	CodeNoSecret         = "no_secret"
	CodeTooManySecrets   = "too_many_secrets"
	CodeNoSecretsKey     = "no_secrets_key" // no worker could open a secret
	CodeRotating         = "rotating"       // two webhook secrets are valid already
	CodeNoEndpoint       = "no_endpoint"
	CodeTooManyEndpoints = "too_many_endpoints"
	CodePending          = "pending" // a delivery that is tried anyway
	CodeNoTemplate       = "no_template"
	CodeTooManyTemplates = "too_many_templates"
	CodeNoProblem        = "no_problem" // graded by a digest: [ErrNoProblem]
	CodeTooManyProblems  = "too_many_problems"
	CodeNoHook           = "no_hook"
	CodeTooManyHooks     = "too_many_hooks"
	CodeNoSchedule       = "no_schedule"
	CodeTooManySchedules = "too_many_schedules"
	CodeSessionEnded     = "session_ended" // also of an execution that waited, or ran, as its session ended
	CodeUnforkable       = "unforkable"    // the session's worker can't fork it
	CodeSessionBusy      = "session_busy"  // as many executions wait as may
	CodeNoContext        = "no_context"    // also of an execution that waited as its context was deleted
	CodeTooManyContexts  = "too_many_contexts"
	CodeNoFile           = "no_file"      // of a session
	CodeFileRefused      = "file_refused" // a session's file that is a link, a device or a directory, say, or can't be made
	// CodeGenerationChanged is that of a [*GenerationError], also of an execution that waited as its context was restarted.
	CodeGenerationChanged = "generation_changed"
	CodeDenied            = "denied_by_policy"
	CodeNotHeld           = "not_held"    // a decision about a job that waits for none
	CodeOtherInput        = "other_input" // a decision that names another input than the job's
	CodeTooLarge          = "too_large"
	CodeMediaType         = "unsupported_media_type"
	CodeMethodNotAllowed  = "method_not_allowed"
	CodeTimeout           = "timeout"
	CodeWaitOver          = "wait_over"  // a job that was waited for has not ended: a [*WaitOverError]
	CodeJobFailed         = "job_failed" // the job of a hook that answers with its result
	CodeUnavailable       = "unavailable"
	CodeInternal          = "internal"
)

// Codes of the Error in the result of a job that no run brought to its end. CodeUnavailable
// is one of them, too.
const (
	CodeCanceled         = "canceled"          // before a worker took it
	CodeDeadlineExceeded = "deadline_exceeded" // the job had not ended by its deadline
	CodeRejected         = "rejected"          // by whoever decided
	CodeApprovalExpired  = "approval_expired"  // nobody decided in time
	CodeTenantStopped    = "tenant_stopped"    // the operator stopped all jobs of its tenant
	CodeWorkerLost       = "worker_lost"       // as often as a job may lose its worker
	CodeImageUnavailable = "image_unavailable"
	CodeInputConflict    = "input_conflict" // source and a file have one name on the worker's runtime
	CodeInputGone        = "input_gone"     // a file that was kept elsewhere
	CodeInputChanged     = "input_changed"
	CodeSecretMissing    = "secret_missing" // it was deleted before the job started
	CodeSecretsTooLarge  = "secrets_too_large"
	CodeSessionLost      = "session_lost" // with its worker or its sandbox, while the execution ran
	CodeJudgeError       = "judge_error"  // a graded job could not be judged, which is not its program's fault
)

// What a request is refused for. Each is an [*Error]: errors.Is compares codes, so that it
// finds them whatever their message is, be it over HTTP or over Redis.
var (
	ErrNotFound       = &Error{CodeNotFound, "there is no such job, batch or file, or no longer"}
	ErrEnded          = &Error{CodeEnded, "the job or batch has ended already"}
	ErrRunNotEnded    = &Error{CodeNotEnded, "the run has not ended: cancel it, or wait for its end, and run it again then"}
	ErrNotEnded       = &Error{CodeNotEnded, "the job has not ended: cancel it, and purge it once it has"}
	ErrSessionLive    = &Error{CodeNotEnded, "the session has not ended: end it, and purge it once it has"}
	ErrNotRunning     = &Error{CodeNotRunning, "the job does not run yet: send input once it does"}
	ErrNotInteractive = &Error{CodeNoInput, "the job takes no input: submit it with interactive"}
	ErrInputClosed    = &Error{CodeNoInput, "the job's standard input was closed by eof"}
	ErrInputFull      = &Error{CodeNoInput, fmt.Sprintf("the job has had all the input that it may get while it runs: %d KiB as JSON, with %d bytes more for each input", MaxInputTotal>>10, InputCost)}
	ErrNoRuntimes     = &Error{CodeNoRuntimes, "no worker has published a runtime yet: start one"}
	ErrConflict       = &Error{CodeConflict, "the idempotency key was given within the last 24 hours, and with something else than this"}
	ErrNoTenant       = &Error{CodeNoTenant, "there is no such tenant"}
	ErrTenantExists   = &Error{CodeTenantExists, "there is a tenant of that name already"}
	ErrRevision       = &Error{CodeRevision, "the terms have changed meanwhile: get them, and change those"}
	ErrNotDisabled    = &Error{CodeNotDisabled, "the tenant is not disabled: disable it first"} // else more jobs would come while they are stopped
	ErrNoToken        = &Error{CodeNoToken, "the tenant has no such token, or no longer"}
	ErrTooManyTokens  = &Error{CodeTooManyTokens, fmt.Sprintf("the tenant has %d tokens already, the most there can be: revoke one", MaxTokens)}
	ErrNoSecret       = &Error{CodeNoSecret, "there is no such secret, or no longer"}
	ErrTooManySecrets = &Error{CodeTooManySecrets, fmt.Sprintf("a tenant has %d secrets at most: delete one", MaxSecrets)}
	ErrNoSecretsKey   = &Error{CodeNoSecretsKey, "this Glovebox stores no secrets: no worker of it has a key for them (GLOVEBOX_SECRETS_KEY)"}
	ErrRotating       = &Error{CodeRotating, "two webhook secrets of the tenant are valid already"}

	ErrNoEndpoint       = &Error{CodeNoEndpoint, "there is no such endpoint, or no longer"}
	ErrTooManyEndpoints = &Error{CodeTooManyEndpoints, fmt.Sprintf("a tenant has %d endpoints at most: delete one", MaxEndpoints)}
	ErrNoDelivery       = &Error{CodeNotFound, "there is no such delivery, or no longer"}
	ErrPending          = &Error{CodePending, "the delivery is being attempted right now"}

	ErrNoTemplate       = &Error{CodeNoTemplate, "there is no such template or revision, or no longer"}
	ErrTooManyTemplates = &Error{CodeTooManyTemplates, fmt.Sprintf("a tenant has %d templates and %d MiB of them at most, all revisions included: delete one", MaxTemplates, MaxTemplatesBytes>>20)}
	ErrNoProblem        = &Error{CodeNoProblem, "there is no such problem, or no longer"}
	ErrTooManyProblems  = &Error{CodeTooManyProblems, fmt.Sprintf("a tenant has %d problems at most: delete one", MaxProblems)}
	ErrNoHook           = &Error{CodeNoHook, "there is no such hook, or no longer"}
	ErrTooManyHooks     = &Error{CodeTooManyHooks, fmt.Sprintf("a tenant has %d hooks at most: delete one", MaxHooks)}

	ErrNoSchedule       = &Error{CodeNoSchedule, "there is no such schedule, or no longer"}
	ErrNoSession        = &Error{CodeNotFound, "there is no such session, or no longer"}
	ErrUnforkable       = &Error{CodeUnforkable, "the session can't be forked: its worker has no disk for that (GLOVEBOX_SESSION_PAUSE_MB), or none holds it yet; replay it instead (glovebox session replay)"}
	ErrSessionEnded     = &Error{CodeSessionEnded, "the session has ended: start another"}
	ErrNoContext        = &Error{CodeNoContext, "the session has no such context, or no longer"}
	ErrTooManyContexts  = &Error{CodeTooManyContexts, fmt.Sprintf("a session has %d contexts at most: delete one", MaxContexts)}
	ErrSessionBusy      = &Error{CodeSessionBusy, fmt.Sprintf("%d executions of the session wait already, the most there can be", MaxWaitingTurns)}
	ErrNotHeld          = &Error{CodeNotHeld, "the job waits for no decision, or no longer"}
	ErrOtherInput       = &Error{CodeOtherInput, "what was decided about is not what the job would run: look at it again"}
	ErrOwnApproval      = &Error{CodeForbidden, "the job was submitted with this token: somebody with another one has to decide"}
	ErrTooManySchedules = &Error{CodeTooManySchedules, fmt.Sprintf("a tenant has %d schedules at most: delete one", MaxSchedules)}
)
