package job

import "time"

// AuditEntry is one thing that somebody did, or tried to do, over the API. It holds ids
// only: no secret, code or output.
type AuditEntry struct {
	At time.Time `json:"at"`
	// Tenant whose things it concerns; "" for nobody's.
	Tenant string `json:"tenant,omitempty"`
	// TokenID is that of the token, or the name of the variable that it is set in.
	TokenID string `json:"token_id,omitempty" doc:"The token's id, or the variable that the token is set in." example:"k7w3mq2a"`
	Action  string `json:"action" doc:"What was done: job.submit, tenant.terms, auth.failed…" example:"job.submit"`
	// Object is what it was done to: the id of a job or batch, or a name.
	Object string `json:"object,omitempty" doc:"What it was done to: the id of a job or a batch, a tenant, a secret's name, tenant/token."`
	// Address that the request came from.
	Address string `json:"address,omitempty" example:"192.0.2.7"`
	// Outcome is OutcomeOK, OutcomeRefused or OutcomeFailed, Status that of the answer.
	Outcome   string `json:"outcome" enum:"ok,refused,failed" doc:"refused: the client's request was not right, or not allowed; failed: Glovebox could not."`
	Status    int    `json:"status" doc:"The HTTP status of the answer."`
	RequestID string `json:"request_id,omitempty"`
}

// The outcomes of an [AuditEntry].
const (
	OutcomeOK      = "ok"
	OutcomeRefused = "refused"
	OutcomeFailed  = "failed"
)
