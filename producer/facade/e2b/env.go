package e2b

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)

// checkEnv fails with a facade.BadRequest for what is no environment, or takes more than most bytes as code in the language that sets it.
func checkEnv(env map[string]string, language string, most int64) error {
	size := 0
	for name, value := range env {
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			return facade.BadRequest(fmt.Sprintf("env_vars.%s is no environment variable: want a name of letters, digits and _, and a value without a NUL", job.Clip(name, 60)))
		}
		if size += len(name) + len(value); language == "bash" {
			size += 3 * strings.Count(value, "'") // bashEnv makes four of one
		}
	}
	if language != "bash" {
		size = base64.StdEncoding.EncodedLen(size)
	}
	if int64(size) > most {
		return facade.BadRequest(fmt.Sprintf("env_vars take %d bytes as code: want up to %d (source_kb)", size, most))
	}
	return nil
}

// executeWith has a session execute code with more environment variables, which hold for that alone: code in the same context sets
// them before, and puts back afterwards what was there, also where the execution in between fails.
func executeWith(ctx context.Context, c *facade.Call, session string, e job.SessionExecution, language string, env map[string]string) (id string, err error) {
	if len(env) == 0 {
		return c.Execute(ctx, session, e)
	}
	set, reset := e, e
	set.Code, reset.Code = envCode(language, env)
	set.Metadata, reset.Metadata = map[string]string{"e2b": "env"}, map[string]string{"e2b": "env"}
	first, err := c.Execute(ctx, session, set)
	if err != nil {
		return "", err
	}
	c.Host.Did(facade.Submitted, first)
	id, err = c.Execute(ctx, session, e)
	if err == nil {
		var last string
		if last, err = c.Execute(ctx, session, reset); err == nil {
			c.Host.Did(facade.Submitted, last)
			return id, nil
		}
		err = join(err, c.Abandon(ctx, id))
	}
	return "", join(err, unset(ctx, c, session, first, reset))
}

// unsetTime is what putting the environment back may take whose client has left.
const unsetTime = 30 * time.Second

// unset takes back what sets variables: it is canceled, and unless no worker had it what was there is put back.
func unset(ctx context.Context, c *facade.Call, session, set string, reset job.SessionExecution) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsetTime)
	defer cancel()
	j, err := c.Client.Cancel(ctx, set)
	if err == nil && j.Ended() && j.Result.Timing.StartedAt == nil {
		return nil
	}
	if errors.Is(err, job.ErrEnded) { // it is done
		err = nil
	}
	if _, more := c.Execute(ctx, session, reset); more != nil {
		more = fmt.Errorf("put the environment back: %w", more)
		if err == nil {
			return more
		}
		err = join(err, more)
	}
	return err
}

// join is errors.Join that keeps one error as it is.
func join(err, more error) error {
	if more == nil {
		return err
	}
	return fmt.Errorf("%w; %w", err, more)
}

// envCode is what sets the variables, and what puts back what was there.
func envCode(language string, env map[string]string) (set, reset string) {
	switch language {
	case "javascript", "typescript":
		return fmt.Sprintf(`void ((env) => { const key = Symbol.for("glovebox.env"), old = globalThis[key] ??= []; old.push(Object.fromEntries(Object.keys(env).map((k) => [k, process.env[k]]))); Object.assign(process.env, env) })(JSON.parse(Buffer.from("%s", "base64")))`, encoded(env)),
			`void ((key) => { for (const [k, v] of Object.entries(globalThis[key]?.pop() ?? {})) v === undefined ? delete process.env[k] : process.env[k] = v })(Symbol.for("glovebox.env"))`
	case "bash":
		return bashEnv(env)
	}
	return fmt.Sprintf(`(lambda o, s, env: (s.__dict__.setdefault("glovebox_env", []).append({k: o.environ.get(k) for k in env}), o.environ.update(env), None)[2])(__import__("os"), __import__("sys"), __import__("json").loads(__import__("base64").b64decode("%s")))`, encoded(env)),
		`(lambda o, s: ([o.environ.pop(k, None) if v is None else o.environ.__setitem__(k, v) for k, v in (s.__dict__.get("glovebox_env") or [{}]).pop().items()], None)[1])(__import__("os"), __import__("sys"))`
}

func encoded(env map[string]string) string {
	text, err := job.Marshal(env)
	if err != nil {
		panic(err) // a map of strings always can be encoded
	}
	return base64.StdEncoding.EncodeToString(text)
}

func bashEnv(env map[string]string) (set, reset string) {
	var before, after strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		quoted := "'" + strings.ReplaceAll(env[name], "'", `'\''`) + "'"
		fmt.Fprintf(&before, "glovebox_had_%[1]s=${%[1]s+x} glovebox_old_%[1]s=${%[1]s-}; export %[1]s=%[2]s\n", name, quoted)
		fmt.Fprintf(&after, "if [ -n \"${glovebox_had_%[1]s-}\" ]; then export %[1]s=\"$glovebox_old_%[1]s\"; elif [ -n \"${glovebox_had_%[1]s+x}\" ]; then unset %[1]s; fi; unset glovebox_had_%[1]s glovebox_old_%[1]s\n", name)
	}
	return before.String(), after.String()
}
