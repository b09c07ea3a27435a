package job_test

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestParseFileCommand(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`{"do":"list"}`: "", `{"do":"list","name":"a/b","after":"YQ"}`: "", `{"do":"read","name":"a b.txt"}`: "", `{"do":"delete","name":"a"}`: "", `{"do":"mkdir","name":"a/b"}`: "",
		`{"do":"read"}`:                         "is empty",
		`{"do":"delete","name":"."}`:            "is not a plain path",
		`{"do":"list","name":"."}`:              "is not a plain path",
		`{"do":"read","name":"../a"}`:           "is not a plain path",
		`{"do":"read","name":"/proc/self/mem"}`: "is absolute",
		`{"do":"read","name":"a\nb"}`:           "has a control",
		`{"do":"read","name":"a","after":"YQ"}`: "has a page",
		`{"do":"chmod","name":"a"}`:             "is no command",
		`{"do":"read","name":"a","mode":1}`:     "is no command",
		`{"do":"read","name":"a"}{"do":"list"}`: "is no command",
		`print(1)`:                              "is no command",
		"":                                      "is no command",
		`null`:                                  "is no command",
		`{"do":"read","name":"` + "\xff" + `"}`: "", // JSON makes it the character for what is none
	} {
		c, err := job.ParseFileCommand(code)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", code, err, want)
		}
		if err != nil {
			continue
		}
		if again, err := job.ParseFileCommand(c.Code()); err != nil || again != c {
			t.Errorf("%q: got %+v, %v as its own code, want %+v", code, again, err, c)
		}
	}
	if err := (job.SessionExecution{Language: job.FilesLanguage, Code: "print(1)"}).Check(0); err == nil || !strings.Contains(err.Error(), "code: is no command") {
		t.Errorf("got %v, want that code is no command", err)
	}
}

// FuzzParseFileList: whatever a sandbox prints, a list has no more than it may, and no kind that nobody knows.
func FuzzParseFileList(f *testing.F) {
	for _, seed := range []string{
		`{"files":[{"name":"a","kind":"file","size":1}],"next_cursor":"YQ"}`, `{"files":null}`, `{"files":[{"kind":"x"}]}`, `{"files":[{"kind":"file","size":-1}]}`, `[]`, "",
		`{"files":[` + strings.Repeat(`{"kind":"file"},`, job.MaxFileList) + `{"kind":"file"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, printed string) {
		list, err := job.ParseFileList(printed)
		if err != nil {
			return
		}
		if list.Files == nil || len(list.Files) > job.MaxFileList {
			t.Fatalf("got %d entries", len(list.Files))
		}
		for _, e := range list.Files {
			if e.Size < 0 || e.Kind == "" || e.Kind == "x" {
				t.Fatalf("got %+v", e)
			}
		}
	})
}

func TestFileError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result job.Result
		code   string
	}{
		{job.Result{Status: job.Succeeded}, ""},
		{job.Result{Status: job.Failed, Stderr: "no_file: a is not there\n"}, job.CodeNoFile},
		{job.Result{Status: job.Failed, Stderr: "too_large: a has 9 bytes\n"}, job.CodeTooLarge},
		{job.Result{Status: job.Failed, Stderr: "internal: no code of these\n"}, job.CodeFileRefused},
		{job.Result{Status: job.Failed}, job.CodeFileRefused},
		{job.Result{Status: job.TimedOut}, job.CodeFileRefused},
		{job.Result{Status: job.Canceled, Error: &job.Error{Code: job.CodeSessionEnded, Message: "it has"}}, job.CodeSessionEnded},
		{job.Result{Status: job.InternalError, Error: &job.Error{Code: job.CodeSessionLost, Message: "it is"}}, job.CodeSessionEnded},
	} {
		if got := job.CodeOf(job.FileError(c.result)); got != c.code {
			t.Errorf("%s %q: got %q, want %q", c.result.Status, c.result.Stderr, got, c.code)
		}
	}
}
