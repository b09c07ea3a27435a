package judge0

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// fieldNames are those that a submission is answered with, all of them.
var fieldNames = []string{
	"source_code", "language_id", "compiler_options", "command_line_arguments", "stdin", "expected_output",
	"cpu_time_limit", "cpu_extra_time", "wall_time_limit", "memory_limit", "stack_limit", "max_processes_and_or_threads",
	"enable_per_process_and_thread_time_limit", "enable_per_process_and_thread_memory_limit", "max_file_size",
	"redirect_stderr_to_stdout", "enable_network", "number_of_runs", "additional_files", "callback_url",
	"stdout", "stderr", "compile_output", "message", "exit_code", "exit_signal", "status_id", "status", "language",
	"created_at", "finished_at", "token", "time", "wall_time", "memory", filesystem,
}

var defaultFields = []string{"token", "time", "memory", "stdout", "stderr", "compile_output", "message", "status"}

// textFields are what was sent and may be large: it is read only for who asks for it.
var textFields = []string{"source_code", "stdin", "expected_output", "additional_files"}

// outcomeFields are what became of a submission: for them all that its runs printed may have to be read.
var outcomeFields = []string{
	"stdout", "stderr", "compile_output", "message", "exit_code", "exit_signal", "status_id", "status", "finished_at", "time", "wall_time", "memory", filesystem,
}

// view is how a submission is to be shown.
type view struct {
	fields  []string
	encoded bool
	most    int64 // bytes of each output, from its beginning
}

// viewOf reads a query. Its error is for the client.
func viewOf(query url.Values) (view, error) {
	v := view{fields: defaultFields, encoded: isTrue(query.Get("base64_encoded")), most: math.MaxInt64}
	asked := strings.TrimRight(strings.TrimSpace(query.Get("fields")), ",") // as Ruby splits it
	if asked == "" {
		return v, nil
	}
	var unknown []string
	v.fields = nil
	for _, name := range strings.Split(asked, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "*":
			v.fields = fieldNames
		case !slices.Contains(fieldNames, name):
			unknown = append(unknown, fmt.Sprintf("%.60q", name))
		case !slices.Contains(v.fields, name):
			v.fields = append(slices.Clone(v.fields), name)
		}
	}
	if unknown != nil {
		list := strings.ReplaceAll(strings.Join(unknown[:min(len(unknown), maxUnknown)], ", "), `"`, "")
		return v, fmt.Errorf("invalid fields: [%s]", list)
	}
	return v, nil
}

// maxUnknown is how many unknown fields an error names.
const maxUnknown = 20

// shows reports whether one of the fields is asked for.
func (v view) shows(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(v.fields, name) })
}

// errNotText means that a text is not UTF-8, which JSON can't say.
var errNotText = errors.New("some attributes for this submission cannot be converted to UTF-8, use base64_encoded=true query parameter")

// errNotTexts is what is said of it for a list.
const errNotTexts = "some attributes for one or more submissions cannot be converted to UTF-8, use base64_encoded=true query parameter"

// text is a text as it is answered: null where it is empty.
func (v view) text(b []byte) (any, error) {
	switch {
	case len(b) == 0:
		return nil, nil //nolint:nilnil // null
	case v.encoded:
		return encode64(b), nil
	case !utf8.Valid(b):
		return nil, errNotText
	}
	return string(b), nil
}

// show answers the fields that are asked for.
func (v view) show(token string, s *submission, language string, o outcome) (map[string]any, error) {
	answer := map[string]any{}
	for _, name := range v.fields {
		value, err := v.field(name, token, s, language, o)
		if err != nil {
			return nil, err
		}
		answer[name] = value
	}
	return answer, nil
}

func (v view) field(name, token string, s *submission, language string, o outcome) (any, error) {
	switch name {
	case "source_code":
		return v.text(s.SourceCode)
	case "stdin":
		return v.text(s.Stdin)
	case "expected_output":
		if s.Expected == nil {
			return nil, nil //nolint:nilnil // null
		}
		return v.text(*s.Expected)
	case "stdout":
		return v.text(o.stdout)
	case "stderr":
		return v.text(o.stderr)
	case "compile_output":
		return v.text(o.compilerOutput)
	case "message":
		return v.text([]byte(o.message))
	case "additional_files":
		return archive(s.Files), nil
	case filesystem:
		return archive(o.files), nil
	}
	return plain(name, token, s, language, o), nil
}

// archive is a zip as it is answered, in base64 whatever is asked for; null where there is none.
func archive(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return encode64(b)
}

// plain returns a field that is no text of the submission's or the program's.
func plain(name, token string, s *submission, language string, o outcome) any {
	switch name {
	case "language_id":
		return s.LanguageID
	case "language":
		return languageEntry{s.LanguageID, language}
	case "callback_url":
		return s.Callback
	case "compiler_options":
		return s.Options
	case "command_line_arguments":
		return s.Arguments
	case "cpu_time_limit":
		return decimal(s.CPUTime)
	case "cpu_extra_time":
		return decimal(s.ExtraTime)
	case "wall_time_limit":
		return decimal(s.WallTime)
	case "memory_limit":
		return s.Memory
	case "stack_limit":
		return s.Stack
	case "max_processes_and_or_threads":
		return s.Processes
	case "max_file_size":
		return s.FileSize
	case "redirect_stderr_to_stdout":
		return s.Redirect
	case "enable_network", "enable_per_process_and_thread_time_limit", "enable_per_process_and_thread_memory_limit":
		return false
	case "number_of_runs":
		return s.NumberOfRuns
	case "exit_code":
		return o.exitCode
	case "exit_signal":
		return o.exitSignal
	case "status_id":
		return o.status
	case "status":
		return statusOf(o.status)
	case "created_at":
		return moment(&o.created)
	case "finished_at":
		return moment(o.finished)
	case "token":
		return token
	case "time":
		return seconds(o.time)
	case "wall_time":
		return seconds(o.wallTime)
	case "memory":
		return o.memory
	}
	return nil
}

// moment is a time as Rails writes it: with milliseconds, always.
func moment(t *time.Time) any {
	if t == nil || t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func seconds(s *float64) any {
	if s == nil {
		return nil
	}
	return decimal(*s)
}
