package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

var errNoSecretsKey = errors.New("this worker has no key for secrets: set GLOVEBOX_SECRETS_KEY")

// secrets opens the secrets that a job or session names. It returns them as an environment, and a mask for
// what it prints. A secret that is gone is the job's failure; one that this worker can't
// open is Glovebox's.
func (w *Worker) secrets(ctx context.Context, tenant string, names []string) (env map[string]string, mask *secrets.Mask, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	if w.Secrets == nil {
		return nil, nil, errNoSecretsKey
	}
	env = make(map[string]string, len(names))
	var values [][]byte
	stored, total := secrets.NewStore(w.Records.Redis()), 0
	for _, name := range names {
		sealed, err := stored.Get(ctx, tenant, name)
		if errors.Is(err, job.ErrNoSecret) {
			return nil, nil, &inputError{&job.Error{
				Code: job.CodeSecretMissing, Message: fmt.Sprintf("the secret %s was deleted before it started", name),
			}}
		}
		if err != nil {
			return nil, nil, err
		}
		value, err := w.Secrets.Open(tenant, name, sealed)
		if err != nil {
			return nil, nil, err
		}
		if total += len(value); total > job.MaxJobSecretBytes {
			return nil, nil, &inputError{&job.Error{
				Code: job.CodeSecretsTooLarge, Message: fmt.Sprintf("the secrets of one job or session have %d bytes together at most", job.MaxJobSecretBytes),
			}}
		}
		env[name], values = string(value), append(values, value)
	}
	return env, secrets.NewMask(values), nil
}
