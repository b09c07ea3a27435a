package api

import (
	"context"

	"github.com/glovebox-run/glovebox/attest"
)

type keysOutput struct {
	Body attest.KeyList
}

// keys lists what verifies the attestations of results.
func (a *API) keys(ctx context.Context, _ *struct{}) (*keysOutput, error) {
	list, err := a.client.Keys(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &keysOutput{Body: attest.KeyList{Keys: list}}, nil
}
