package attest

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// transcript is what a session executed; its second was canceled before it began.
func transcript(tb testing.TB, s *Signer, session string) []job.Executed {
	tb.Helper()
	var all []job.Executed
	head := ""
	for n := range 5 {
		r := job.Result{ID: session + "-" + strconv.Itoa(n), Status: job.Succeeded, Stdout: strconv.Itoa(n)}
		if n == 1 {
			r.Status = job.Canceled
			all = append(all, job.Executed{Result: r})
			continue
		}
		at := job.ExecutionState{ID: session, Sequence: int64(n + 1), Generation: 1, State: job.StateKept}
		r.Session = &at
		given := job.ExecutionInput{Code: "print(1)", Env: map[string]string{"A": "b"}, Files: []job.File{
			{Name: "b.txt", Content: "content"}, {Name: "empty"}, {Name: "a.txt", Upload: hashText("kept"), SHA256: hashText("kept"), Size: 4},
		}}
		in := NewExecutionInput(given.Spec(), at, head)
		for _, f := range []struct{ name, content string }{{"a.txt", "kept"}, {"b.txt", "content"}, {"empty", ""}} { // as a worker does
			if err := in.Begin(f.name, int64(len(f.content))); err != nil {
				tb.Fatal(err)
			}
			if _, err := in.Write([]byte(f.content)); err != nil {
				tb.Fatal(err)
			}
		}
		input, err := in.Sum()
		if err != nil {
			tb.Fatal(err)
		}
		if r.Attestation, err = s.Attest(r, Run{InputHash: input, Previous: head}); err != nil {
			tb.Fatal(err)
		}
		if head, err = Head(r.Attestation); err != nil {
			tb.Fatal(err)
		}
		all = append(all, job.Executed{Result: copied(tb, r), Input: &given})
	}
	return all
}

// TestVerifySession: a transcript verifies as a whole or not at all. Which execution comes next depends on all before it.
func TestVerifySession(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	keys := []Key{s.Key()}
	other := transcript(t, s, "other")
	alone := job.Result{ID: "alone", Status: job.Succeeded}
	var err error
	if alone.Attestation, err = s.Attest(alone, Run{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func([]job.Executed) []job.Executed
		want   error
	}{
		"whole":                                 {func(r []job.Executed) []job.Executed { return r }, nil},
		"newest first":                          {func(r []job.Executed) []job.Executed { slices.Reverse(r); return r }, nil},
		"up to the third":                       {func(r []job.Executed) []job.Executed { return r[:3] }, nil},
		"without the one that was not executed": {func(r []job.Executed) []job.Executed { return slices.Delete(r, 1, 2) }, nil},
		"without the first":                     {func(r []job.Executed) []job.Executed { return r[1:] }, ErrBroken},
		"without one":                           {func(r []job.Executed) []job.Executed { return slices.Delete(r, 2, 3) }, ErrBroken},
		"one without its attestation":           {func(r []job.Executed) []job.Executed { r[2].Attestation = nil; return r }, ErrBroken},
		"one twice":                             {func(r []job.Executed) []job.Executed { return append(r, r[4]) }, ErrBroken},
		"one of another session":                {func(r []job.Executed) []job.Executed { r[2] = other[2]; return r }, ErrBroken},
		"a job":                                 {func(r []job.Executed) []job.Executed { return append(r, job.Executed{Result: alone}) }, ErrBroken},
		"a changed byte":                        {func(r []job.Executed) []job.Executed { r[2].Stdout = "3"; return r }, ErrChanged},
		"a changed number":                      {func(r []job.Executed) []job.Executed { r[2].Session.Sequence = 4; return r }, ErrChanged},
		"a changed byte of code":                {func(r []job.Executed) []job.Executed { r[2].Input.Code = "print(2)"; return r }, ErrChanged},
		"a changed byte of a file":              {func(r []job.Executed) []job.Executed { r[2].Input.Files[0].Content = "Content"; return r }, ErrChanged},
		"a file that is no base64":              {func(r []job.Executed) []job.Executed { r[2].Input.Files[0].ContentBase64 = "?"; return r }, ErrChanged},
		"another file":                          {func(r []job.Executed) []job.Executed { r[2].Input.Files[2].SHA256 = hashText("other"); return r }, ErrChanged},
		"one file less":                         {func(r []job.Executed) []job.Executed { r[2].Input.Files = r[2].Input.Files[1:]; return r }, ErrChanged},
		"another environment":                   {func(r []job.Executed) []job.Executed { r[2].Input.Env = nil; return r }, ErrChanged},
		"code of another":                       {func(r []job.Executed) []job.Executed { r[2].Input = &job.ExecutionInput{Code: "1"}; return r }, ErrChanged},
		"none attested":                         {func(r []job.Executed) []job.Executed { return r[1:2] }, ErrUnsigned},
		"nothing":                               {func([]job.Executed) []job.Executed { return nil }, ErrUnsigned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := c.change(transcript(t, s, "default-s-x"))
			got, err := VerifySession(given, keys)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err == nil && (got.Session != "default-s-x" || len(got.Executions)+len(got.Unattested) != len(given) || got.Head != got.Executions[len(got.Executions)-1].Statement.Subject[0].Digest.SHA256) {
				t.Errorf("got %+v", got)
			}
		})
	}
	bare := transcript(t, s, "default-s-x")
	bare[3].Input = nil
	if got, err := VerifySession(bare, keys); err != nil || len(got.Unchecked) != 1 || got.Unchecked[0] != bare[3].ID {
		t.Errorf("got %+v, %v, want that one is unchecked", got.Unchecked, err)
	}
	if _, err := VerifySession(transcript(t, s, "default-s-x"), []Key{newSigner(t).Key()}); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("got %v, want %v", err, ErrUnknownKey)
	}
	if _, err := Head(&job.Attestation{Payload: "e30="}); err == nil {
		t.Error("a statement of nothing has a head")
	}
}

// TestTranscriptReaches: what is cut off at its end is refused by whoever knows how far the session went; what went on since then is not.
func TestTranscriptReaches(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	all := transcript(t, s, "default-s-x")
	verified := func(r []job.Executed) Transcript {
		t.Helper()
		v, err := VerifySession(r, []Key{s.Key()})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	whole, short := verified(all), verified(all[:4])
	for name, c := range map[string]struct {
		of    Transcript
		head  string
		count int
		want  error
	}{
		"whole":                    {whole, whole.Head, 4, nil},
		"nothing is known":         {short, "", 0, nil},
		"it went on":               {whole, short.Head, 3, nil},
		"cut off, by the head":     {short, whole.Head, 0, ErrBroken},
		"cut off, by the count":    {short, "", 4, ErrBroken},
		"another session's head":   {whole, verified(transcript(t, s, "other")).Head, 0, ErrBroken},
		"an unattested one counts": {whole, "", 5, ErrBroken},
	} {
		if err := c.of.Reaches(c.head, c.count); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestExecutionInput: the input of an execution is of the session, the place in it, the execution before it and what is executed.
func TestExecutionInput(t *testing.T) {
	t.Parallel()
	at := job.ExecutionState{ID: "s", Sequence: 2, Generation: 1}
	seen := map[string]string{}
	for name, in := range map[string]*Input{
		"it":                  NewExecutionInput(job.Spec{Source: "x"}, at, "a"),
		"a job":               NewInput(job.Spec{Source: "x"}),
		"other code":          NewExecutionInput(job.Spec{Source: "y"}, at, "a"),
		"another before it":   NewExecutionInput(job.Spec{Source: "x"}, at, "b"),
		"another session":     NewExecutionInput(job.Spec{Source: "x"}, job.ExecutionState{ID: "r", Sequence: 2, Generation: 1}, "a"),
		"another number":      NewExecutionInput(job.Spec{Source: "x"}, job.ExecutionState{ID: "s", Sequence: 3, Generation: 1}, "a"),
		"another context":     NewExecutionInput(job.Spec{Source: "x"}, job.ExecutionState{ID: "s", Sequence: 2, Context: "a", Generation: 1}, "a"),
		"another language":    NewExecutionInput(job.Spec{Source: "x"}, job.ExecutionState{ID: "s", Sequence: 2, Context: "a", Language: "sh", Generation: 1}, "a"),
		"a command for files": NewExecutionInput(job.Spec{Source: "x"}, job.ExecutionState{ID: "s", Sequence: 2, Language: job.FilesLanguage, Generation: 1}, "a"),
		"another generation":  NewExecutionInput(job.Spec{Source: "x"}, job.ExecutionState{ID: "s", Sequence: 2, Generation: 2}, "a"),
	} {
		sum, err := in.Sum()
		if err != nil {
			t.Fatal(err)
		}
		if seen[sum] != "" {
			t.Errorf("%s and %s have the same hash", name, seen[sum])
		}
		seen[sum] = name
	}
}
