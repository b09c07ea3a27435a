package e2b

import (
	"fmt"
	"net/http"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// filesystem answers a call of envd's service of files.
func filesystem(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	x, err := sandboxOf(ctx, r, c)
	method := r.PathValue("method")
	if err == nil && (method == "ListDir" || method == "Stat") {
		err = c.Host.May(job.ScopeRead)
	}
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	q, done, err := readCall(ctx, r, c)
	var of errand
	if err == nil {
		of, err = errandOf(method, q)
		done() // the errand has its turn when it has it
	}
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	result, err := of.does(ctx, w, c, x, nil)
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	said, err := c.Output(ctx, result, producer.Stdout)
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	if err := checkPrinted(result, int64(len(said))); err != nil {
		failCall(w, r, c, err)
		return
	}
	w.Header().Set("Content-Type", unaryType)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(said) // the client may have left
}

// mostDepth is how deep a list of files goes.
const mostDepth = 32

// errandOf is what a call asks for.
func errandOf(method string, q request) (errand, error) {
	do, ok := map[string]string{"Stat": "stat", "MakeDir": "mkdir", "Move": "move", "ListDir": "list", "Remove": "remove"}[method]
	if !ok {
		return nil, callError{"unimplemented", fmt.Sprintf("%.40s of files is not there: want ListDir, MakeDir, Move, Remove or Stat", method)}
	}
	of := errand{"do": do}
	fields := []string{"path"}
	if method == "Move" {
		fields = []string{"source", "destination"}
	}
	for _, field := range fields {
		text, err := q.text(field)
		if err != nil {
			return nil, err
		}
		if text, err = absolute(text); err != nil {
			return nil, err
		}
		of[field] = text
	}
	if method == "ListDir" {
		depth, _, err := q.number("depth")
		if err != nil {
			return nil, err
		}
		of["depth"] = min(max(depth, 1), mostDepth)
	}
	return of, nil
}
