package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
)

// maxKeysFile is beyond what a list of keys may hold.
const maxKeysFile = 1 << 20

type verifyOptions struct {
	keys, id, release string
	session, json     bool

	head  string // of the session that is verified
	count int
}

func (a *app) verifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "Verify that a result is what a worker attested, or a file what was released",
		Long: `Check the signature of a result's attestation, that no attested field of the result
was changed since, and that the hashes are those of what is attested. FILE is a result
as "glovebox get --json" prints it, or a webhook's body; - is standard input.

With --keys, nothing is asked of anybody. The file is what GET /v1/keys answers: take it
once, by a way that you trust, and keep it. Without --keys, the API is asked, so that the
answer is worth as much as the way to the API.

What is attested is all of the result but URLs, metadata, cost, and charts' data, which the
files that are attested hold, too. To be sure that a result is of the job that you mean,
give --id.

With --session, each FILE is a result of an execution of one session, or has several, one
behind the other. Each names the one before it, so none can be left out, changed or put
elsewhere. That the end is cut off shows with --head or --count only: they are head and
attested of "glovebox session show ID", or of the webhook session.ended, which is signed.
Executions that were canceled before they began have no attestation and are listed.

With --release, each FILE is a file of a release of Glovebox: a package, an archive. What
signs releases are other keys than those of workers, so --keys has to name a file with
these: docs/release.md of Glovebox says where they come from.

Exit codes:
  0  verified
  1  REJECTED: not attested or not released, signed by nobody who is trusted, or changed
  2  wrong usage, or FILE or the keys can't be read`,
		Example: `  glovebox get --json default-abc… > result.json
  curl -s $GLOVEBOX_URL/v1/keys -H "Authorization: Bearer $GLOVEBOX_TOKEN" > keys.json
  glovebox verify --keys keys.json result.json
  glovebox verify --json result.json | jq .predicate.limits
  glovebox session transcript ID > transcript.jsonl && glovebox verify --session transcript.jsonl
  glovebox verify --session --head "$(glovebox session show ID | jq -r .head)" transcript.jsonl
  glovebox verify --release glovebox_0.1.0.intoto.jsonl --keys release-keys.json *.deb`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.release != "" && len(args) > 0 {
				return a.verifyRelease(args, o)
			}
			if err := o.checkEnd(); err != nil {
				return err
			}
			if o.session && len(args) > 0 {
				return a.verifySession(cmd.Context(), args, o)
			}
			if err := one("FILE")(cmd, args); err != nil {
				return err
			}
			return a.verify(cmd.Context(), args[0], o)
		},
	}
	cmd.Flags().StringVar(&o.keys, "keys", "", "`FILE` of the keys to trust, as GET /v1/keys answers it")
	cmd.Flags().StringVar(&o.id, "id", "", "`ID` of the job that the result has to be of")
	cmd.Flags().BoolVar(&o.session, "session", false, "verify that the results are all that one session executed")
	cmd.Flags().StringVar(&o.head, "head", "", "with --session, the `DIGEST` of an execution that they have to reach")
	cmd.Flags().IntVar(&o.count, "count", 0, "with --session, how many attested executions there have to be at least: `N`")
	cmd.Flags().StringVar(&o.release, "release", "", "`FILE` of the provenance of a release that each FILE has to be of")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the verified statement as JSON")
	return cmd
}

func (a *app) verify(ctx context.Context, file string, o verifyOptions) error {
	b, err := a.readFile(file, attest.MaxResult)
	if err != nil {
		return err
	}
	r, err := attest.ParseResult(b)
	if err != nil {
		return &failure{exitUsage, err, `FILE is what "glovebox get --json" prints, or a webhook's body`}
	}
	keys, err := a.trustedKeys(ctx, o.keys)
	if err != nil {
		return err
	}
	if o.id != "" && r.ID != o.id {
		return a.reject(r, fmt.Errorf("it is of another job than %s", o.id))
	}
	v, err := attest.Verify(r, keys)
	if err != nil {
		return a.reject(r, err)
	}
	if o.json {
		return a.printJSON(v.Statement)
	}
	fmt.Fprintf(a.stdout, "verified  %s  %s\n", plain(r.ID), plain(headline(r)))
	fmt.Fprintf(a.stdout, "  key %s, worker %s, image %s\n", v.Key.ID, plain(r.Worker), plain(r.Runtime.ImageDigest))
	return nil
}

// reject says why, where a success would have been said.
func (a *app) reject(r job.Result, why error) error {
	fmt.Fprintf(a.stdout, "REJECTED  %s\n", plain(r.ID))
	f := &failure{code: exitFailed, err: why}
	switch {
	case errors.Is(why, attest.ErrUnsigned):
		f.hint = "its worker has no signing key, or it ended without a run: canceled in the queue, or internal_error"
	case errors.Is(why, attest.ErrUnknownKey):
		f.hint = "a key that was retired is listed for as long as the records are: keep a copy of the keys for longer"
	case errors.Is(why, attest.ErrChanged):
		f.hint = `a webhook's body holds less of a long output: verify what "glovebox get --json" prints`
	}
	return f
}

// trustedKeys are those of the file, or of the API where there is no file.
func (a *app) trustedKeys(ctx context.Context, file string) ([]attest.Key, error) {
	if file == "" {
		jobs, err := a.jobs()
		if err != nil {
			var f *failure
			if errors.As(err, &f) {
				f.hint = "give --keys FILE to verify without an API; else: " + f.hint
			}
			return nil, err
		}
		defer jobs.Close()
		keys, err := jobs.Keys(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask for the keys: %w", err)
		}
		return keys, nil
	}
	return a.keysFile(file)
}

// keysFile reads the keys to trust.
func (a *app) keysFile(file string) ([]attest.Key, error) {
	b, err := a.readFile(file, maxKeysFile)
	if err != nil {
		return nil, err
	}
	keys, err := attest.ParseKeys(b)
	if err != nil {
		return nil, &failure{exitUsage, fmt.Errorf("%s: %w", file, err), ""}
	}
	return keys, nil
}

// readFile reads a file, or standard input for "-", of at most so many bytes.
func (a *app) readFile(name string, most int64) ([]byte, error) {
	from := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, &failure{code: exitUsage, err: err}
		}
		defer f.Close()
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, most+1))
	if err != nil {
		return nil, &failure{code: exitUsage, err: fmt.Errorf("read %s: %w", name, err)}
	}
	if int64(len(b)) > most {
		return nil, usagef("read %s: it is larger than %d MiB", name, most>>20)
	}
	return b, nil
}
