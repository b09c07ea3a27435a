package job

import (
	"fmt"
	"time"
)

// Bounds of what a tenant stores for its jobs.
const (
	MaxSecrets     = 64 // of a tenant, and of a job
	MinSecretBytes = 8  // what is shorter can't be masked in a job's output
	MaxSecretBytes = MaxStringBytes
	// MaxJobSecretBytes bounds the secrets of one job together.
	MaxJobSecretBytes = 128 << 10
)

// Secret is what is told of a stored secret: never what it is.
type Secret struct {
	Name      string    `json:"name" doc:"The environment variable that it becomes." example:"API_TOKEN"`
	UpdatedAt time.Time `json:"updated_at" doc:"When it was set last."`
}

// CheckSecret returns what is wrong with a secret as [Invalid], or nil. It never echoes
// the value.
func CheckSecret(name, value string) error {
	var errs Invalid
	if !envName(name) {
		errs = append(errs, FieldError{"name", clip(name), "is not a variable's name", "letters, digits and _, not starting with a digit; at most 256"})
	}
	problem := checkString(value, MaxSecretBytes)
	if len(value) < MinSecretBytes {
		problem = "is too short to be masked in what a job prints"
	}
	if problem != "" {
		errs = append(errs, FieldError{"value", nil, problem, fmt.Sprintf("%d to %d bytes of UTF-8 without NUL", MinSecretBytes, MaxSecretBytes)})
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// checkSecrets checks the names of secrets.
func (s Spec) checkSecrets(add addFunc) {
	if len(s.Secrets) > MaxSecrets {
		add("secrets", len(s.Secrets), "has too many entries", fmt.Sprintf("0 to %d", MaxSecrets))
		return
	}
	seen := map[string]bool{}
	for i, name := range s.Secrets {
		field := fmt.Sprintf("secrets[%d]", i)
		_, set := s.Env[name]
		switch {
		case !envName(name):
			add(field, clip(name), "is not a variable's name", "the name of a secret that the tenant has stored")
		case seen[name]:
			add(field, clip(name), "appears more than once", "each name once")
		case set:
			add(field, clip(name), "is set in env, too", "one of the two")
		}
		seen[name] = true
	}
}

// ValidSecretName reports whether a secret can have that name.
func ValidSecretName(name string) bool { return envName(name) }
