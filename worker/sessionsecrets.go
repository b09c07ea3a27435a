package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/secrets"
)

// secretsError is why a session can't have its secrets. It names them, and never says what they are.
type secretsError struct{ message string }

func (e *secretsError) Error() string { return e.message }

// openSecrets opens the secrets that the session names, once: all of its executions have them as they are now. It waits for a Redis that is away, and
// fails with a *secretsError where no waiting helps.
func (h *heldSession) openSecrets(ctx context.Context) (env map[string]string, err error) {
	var fault *secretsError
	err = await.Until(ctx, h.log, "Redis, to read the session's secrets", func(ctx context.Context) (err error) {
		env, h.mask, err = h.worker.secrets(ctx, h.record.Tenant, h.record.Settings.Secrets)
		var input *inputError
		switch {
		case errors.As(err, &input):
			fault = &secretsError{input.reason.Message}
		case errors.Is(err, errNoSecretsKey):
			fault = &secretsError{"its worker has no key for secrets"}
		case errors.Is(err, secrets.ErrNoKey), errors.Is(err, secrets.ErrUnreadable):
			fault = &secretsError{fmt.Sprintf("its worker can't open one of its secrets, and whoever set it can set it again: %s", err)}
		default:
			return err
		}
		return await.ErrSettings
	})
	if fault != nil {
		return nil, fault
	}
	return env, err
}
