package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/webhook"
)

func TestMain(m *testing.M) {
	testscript.Main(withBuilt{m}, map[string]func(){"post": post})
}

// TestScripts runs the program as a user does: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	t.Parallel()
	bin := build(t, podmanTags, "glovebox")
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("ADDR", gbtest.Addr(t)) // of the outer test: they stay ours while the scripts run
			env.Setenv("PROGRAM", gbtest.Addr(t))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("SECRET", webhook.NewSecret().Reveal())
			env.Setenv("OTHER_SECRET", webhook.NewSecret().Reveal())
			seed := make([]byte, 32)
			rand.Read(seed)
			key, err := webhook.ParsePrivateKey("whsk_" + base64.StdEncoding.EncodeToString(seed))
			if err != nil {
				return err
			}
			env.Setenv("PRIVATE_KEY", key.Reveal())
			env.Setenv("PUBLIC_KEY", key.Public().String())
			attested, err := os.ReadFile("../../attest/testdata/result.json")
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "result.json"), attested, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits CODE COMMAND… checks the exit code of a command.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run: %v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("got exit code %d, want %s", code, args[0])
	}
}

// post is a program for the scripts: it posts the file named by its first argument to
// $ADDR, signed with $SECRET and $PRIVATE_KEY, and prints the status. It waits for the receiver to listen.
func post() {
	if err := postFile(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "post:", err)
		os.Exit(1)
	}
}

func postFile(ctx context.Context, name string) error {
	body, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	secret, err := webhook.ParseSecret(os.Getenv("SECRET"))
	if err != nil {
		return err
	}
	key, err := webhook.ParsePrivateKey(os.Getenv("PRIVATE_KEY"))
	if err != nil {
		return err
	}
	signers := []webhook.Signer{secret, key}
	header, err := webhook.Sign(signers, "msg_test", time.Now(), body)
	if err != nil {
		return err
	}
	if os.Getenv("TAMPER") != "" {
		body[0] ^= 1
	}
	ctx, cancel := context.WithTimeout(ctx, gbtest.Patience)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+os.Getenv("ADDR")+"/", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header = header
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			fmt.Println(res.Status)
			return res.Body.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
