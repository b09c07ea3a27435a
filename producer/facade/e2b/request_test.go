package e2b

import (
	"bytes"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestRequest(t *testing.T) {
	t.Parallel()
	q, err := parseRequest([]byte(`{"s":"x","n":3,"f":1.5,"m":{"a":"b"},"bad":{"a":1},"l":["a"],"null":null,"t":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		err  func() error
		want string
	}{
		"string":        {func() error { _, err := q.text("s"); return err }, ""},
		"no string":     {func() error { _, err := q.text("n"); return err }, "n is 3: want a string"},
		"null":          {func() error { _, err := q.text("null"); return err }, ""},
		"number":        {func() error { _, _, err := q.number("n"); return err }, ""},
		"no number":     {func() error { _, _, err := q.number("s"); return err }, `s is "x": want a whole number of 0 or more`},
		"a fraction":    {func() error { _, _, err := q.number("f"); return err }, "f is 1.5: want a whole number of 0 or more"},
		"strings":       {func() error { _, err := q.texts("m"); return err }, ""},
		"no strings":    {func() error { _, err := q.texts("bad"); return err }, "bad.a is 1: want a string"},
		"no object":     {func() error { _, err := q.texts("l"); return err }, `l is ["a"]: want an object of strings`},
		"list":          {func() error { _, err := q.list("l"); return err }, ""},
		"no list":       {func() error { _, err := q.list("m"); return err }, `m is {"a":"b"}: want an array of strings`},
		"no truth":      {func() error { _, err := q.truth("n"); return err }, "n is 3: want true or false"},
		"nothing there": {func() error { _, _, err := q.number("none"); return err }, ""},
	} {
		if err := tt.err(); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	for _, body := range []string{"[]", "null", "{", `{"a":1} x`, "\"s\"", `{"code":"\udc80"}`, "{\"code\":\"\xff\"}"} {
		if _, err := parseRequest([]byte(body)); err == nil {
			t.Errorf("%s: it is taken", body)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{ // absolute, and the session's own name
		"a.txt":                  {"/home/user/a.txt", "a.txt"},
		"/home/user/d/a":         {"/home/user/d/a", "d/a"},
		"~/a":                    {"/home/user/a", "a"},
		"/work/a":                {"/work/a", "a"},
		"../../etc/passwd":       {"/etc/passwd", ""},
		"d/../../root/.ssh":      {"/home/root/.ssh", ""},
		"/home/user/../user/a":   {"/home/user/a", "a"},
		"/home/user":             {"/home/user", ""},
		"/home/username/a":       {"/home/username/a", ""},
		"/home/user/back\\slash": {"/home/user/back\\slash", ""},
		"/tmp/a":                 {"/tmp/a", ""},
	} {
		got, err := absolute(name)
		own, ok := ours(got)
		if !ok {
			own = ""
		}
		if err != nil || got != want[0] || own != want[1] {
			t.Errorf("%s: got %s, %q, %v, want %q", name, got, own, err, want)
		}
	}
	for _, name := range []string{"", "a\x00b", "a\xff"} {
		if _, err := absolute(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// FuzzRequest: whatever a body has, a field is what it is to be or is refused, and a path leads nowhere else.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"code":"x","env_vars":{"A":"b"},"context_id":null,"timeout":1e3}`))
	f.Add([]byte(`{"process":{"cmd":"x","args":["a",1]},"stdin":0}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parseRequest(body)
		if err != nil {
			return
		}
		for name := range q {
			_, _ = q.text(name)
			if n, ok, err := q.number(name); err == nil && ok && n < 0 {
				t.Errorf("%s is %d", name, n)
			}
			if env, err := q.texts(name); err == nil && checkEnv(env, "python", 1<<20) == nil {
				if set, _ := envCode("python", env); strings.ContainsAny(set, "\n\x00") {
					t.Errorf("%q is more than a line", set)
				}
			}
			if list, err := q.list(name); err == nil && len(list) > len(body) {
				t.Error("it has grown")
			}
			if of, err := q.object(name); err == nil {
				_, _ = errandOf("Move", of)
			}
		}
		if name, err := absolute(string(body)); err == nil {
			if own, ok := ours(name); ok && (job.CheckName(own) != "" || bytes.HasPrefix([]byte(own), []byte("/"))) {
				t.Errorf("%q becomes %q", body, own)
			}
		}
	})
}
