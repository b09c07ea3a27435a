package job

// ExecutionInput is what an execution of a session was given.
type ExecutionInput struct {
	Code string `json:"code,omitempty"`
	// Context and Language say whose interpreter executed it; "" is main, which has the runtime's own.
	Context  string `json:"context,omitempty" doc:"Whose interpreter executed it; absent for main."`
	Language string `json:"language,omitempty" doc:"That context's; absent for main."`
	// Files hold their content, or say which upload or artifact it is, and its SHA-256.
	Files []File `json:"files,omitempty" doc:"With their content, or with the upload or artifact that has it, and its SHA-256."`
	// Env is the session's.
	Env map[string]string `json:"env,omitempty" doc:"The session's environment variables."`
	// Secrets are names.
	Secrets []string `json:"secrets,omitempty" doc:"Names of the session's secrets."`
	WallMS  int64    `json:"wall_ms,omitempty" doc:"How long it might take."`
}

// Spec returns the job that the execution's input hash is of.
func (in ExecutionInput) Spec() Spec {
	return Spec{Source: in.Code, Files: in.Files, Env: in.Env, Secrets: in.Secrets}
}

// Executed is an execution of a session that has ended: its result, and what it was given.
type Executed struct {
	Result

	// Input is nil for one that was never begun.
	Input *ExecutionInput `json:"input,omitempty" doc:"What it was given; absent where it was never begun."`
}
