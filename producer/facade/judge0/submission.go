package judge0

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// submission is what was sent, with defaults for what was not. It is kept as JSON, so its names there must
// not change.
type submission struct {
	Texts

	LanguageID     int     `json:"language_id"`
	Options        *string `json:"compiler_options,omitempty"`
	Arguments      *string `json:"command_line_arguments,omitempty"`
	ExpectedSum    []byte  `json:"expected_sum,omitempty"` // trimmedSum of what has to be printed; nil for anything
	CPUTime        float64 `json:"cpu_time_limit"`
	ExtraTime      float64 `json:"cpu_extra_time"`
	WallTime       float64 `json:"wall_time_limit"`
	Memory         int64   `json:"memory_limit"`
	Stack          int64   `json:"stack_limit"`
	Processes      int64   `json:"max_processes_and_or_threads"`
	FileSize       int64   `json:"max_file_size"`
	Redirect       bool    `json:"redirect_stderr_to_stdout,omitempty"`
	NumberOfRuns   int64   `json:"number_of_runs"`
	Callback       *string `json:"callback_url,omitempty"`
	stackWasAsked  bool    // else it is a default
	memoryWasAsked bool
	most           bounds
	unpacked       []file // of Files

	// Runs are the ids of the jobs that run it, besides the one whose UUID is the token. RunsOf is a secret that these have
	// as runKey: a native job whose metadata name others' jobs doesn't know it.
	Runs   []string `json:"runs,omitempty"`
	RunsOf string   `json:"runs_of,omitempty"`
}

// Texts are what a submission may have much of.
type Texts struct {
	SourceCode []byte  `json:"source_code,omitempty"`
	Stdin      []byte  `json:"stdin,omitempty"`
	Expected   *[]byte `json:"expected_output,omitempty"`
	Files      []byte  `json:"additional_files,omitempty"` // a zip
}

// faults are what is wrong with a submission, by field.
type faults map[string][]string

func (f faults) add(field, format string, args ...any) {
	f[field] = append(f[field], fmt.Sprintf(format, args...))
}

// reader reads a submission's fields.
type reader struct {
	params  params
	encoded bool // text is base64
	faults  faults
}

// readSubmission returns what params say, or what is wrong with them.
func readSubmission(p params, encoded bool, languages catalog, most bounds) (*submission, faults) {
	r := reader{p, encoded, faults{}}
	s := &submission{
		Texts:     Texts{SourceCode: r.bytes("source_code"), Stdin: r.bytes("stdin")},
		most:      most,
		CPUTime:   r.number("cpu_time_limit", defaultCPUTime, 0, most.cpuTime, decimal),
		ExtraTime: r.number("cpu_extra_time", defaultExtraTime, 0, maxExtraTime, decimal),
		WallTime:  r.number("wall_time_limit", defaultWallTime, minWallTime, most.wallTime, decimal),
		Memory:    r.integer("memory_limit", defaultMemory, minMemory, most.memory),
		Stack:     r.integer("stack_limit", defaultStack, 0, most.stack),
		Processes: r.integer("max_processes_and_or_threads", defaultProcesses, 1, most.processes),
		FileSize:  r.integer("max_file_size", defaultFileSize, 0, most.fileSize),
		Redirect:  r.flag("redirect_stderr_to_stdout"), NumberOfRuns: r.integer("number_of_runs", defaultRuns, 1, maxRuns),
		Options: r.line("compiler_options"), Arguments: r.line("command_line_arguments"),
	}
	_, s.stackWasAsked = p["stack_limit"]
	_, s.memoryWasAsked = p["memory_limit"]
	if _, ok := p["expected_output"]; ok {
		expected := r.bytes("expected_output")
		s.Expected, s.ExpectedSum = &expected, trimmedSum(expected)
	}
	if r.flag("enable_network") {
		r.faults.add("enable_network", "enabling network is not allowed")
	}
	for _, name := range []string{"enable_per_process_and_thread_time_limit", "enable_per_process_and_thread_memory_limit"} {
		if r.flag(name) {
			r.faults.add(name, "this option cannot be enabled")
		}
	}
	if callback := p["callback_url"]; strings.TrimSpace(callback) != "" {
		s.Callback = &callback
		if len(callback) > maxCallback {
			r.faults.add("callback_url", "is too long (maximum is %d characters)", maxCallback)
		}
	}
	language, ok := r.language(s, languages)
	r.files(s)
	r.source(s)
	if ok {
		if s.Options != nil && strings.TrimSpace(*s.Options) != "" && !language.takesOptions {
			r.faults.add("compiler_options", "setting compiler options is only allowed for %s", strings.Join(languages.takingOptions(), ", "))
		}
		if wants := min(language.limits.MemoryMB<<10, most.memory); !s.memoryWasAsked && wants > s.Memory {
			s.Memory = wants
		}
	}
	return s, r.faults
}

// bytes returns a text, nil where it is absent or null.
func (r reader) bytes(name string) []byte {
	text, ok := r.params[name]
	switch {
	case !ok:
		return nil
	case r.encoded:
		return decode64(text)
	}
	return []byte(text)
}

func (r reader) flag(name string) bool {
	return truth(r.params[name])
}

// line is an option that a shell reads.
func (r reader) line(name string) *string {
	text, ok := r.params[name]
	if !ok {
		return nil
	}
	if utf8.RuneCountInString(text) > maxLine {
		r.faults.add(name, "is too long (maximum is %d characters)", maxLine)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		r.faults.add(name, "is invalid")
	}
	return &text
}

// decimal writes a number as Rails does one with a fraction: "5.0".
func decimal(f float64) string {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func whole(f float64) string { return strconv.FormatFloat(f, 'f', 0, 64) }

func (r reader) number(name string, otherwise, least, most float64, write func(float64) string) float64 {
	otherwise = min(otherwise, most) // a tenant may have less than the default
	text, ok := r.params[name]
	if !ok || text == "" {
		return otherwise
	}
	value, ok := number(text)
	switch {
	case !ok:
		r.faults.add(name, "is not a number")
	case value < least:
		r.faults.add(name, "must be greater than or equal to %s", whole(least)) // without a fraction, as in Judge0
	case value > most:
		r.faults.add(name, "must be less than or equal to %s", write(most))
	default:
		return value
	}
	return otherwise
}

func (r reader) integer(name string, otherwise, least, most int64) int64 {
	return int64(r.number(name, float64(otherwise), float64(least), float64(most), whole))
}

// language returns the language that is asked for.
func (r reader) language(s *submission, languages catalog) (offered, bool) {
	text := r.params["language_id"]
	if strings.TrimSpace(text) == "" {
		r.faults.add("language_id", "can't be blank")
		return offered{}, false
	}
	id, ok := number(text)
	if !ok || id != math.Trunc(id) || math.Abs(id) > math.MaxInt32 {
		r.faults.add("language_id", "is not a number")
		return offered{}, false
	}
	s.LanguageID = int(id)
	language, ok := languages.find(s.LanguageID)
	switch {
	case !ok && s.LanguageID > 0 && s.LanguageID <= lastArchived:
		r.faults.add("language_id", "language with id %d is archived and cannot be used anymore", s.LanguageID)
	case !ok:
		r.faults.add("language_id", "language with id %d doesn't exist", s.LanguageID)
	}
	return language, ok
}

// files reads the additional files. They are base64 whatever the request says of its texts.
func (r reader) files(s *submission) {
	const name = "additional_files"
	text := r.params[name]
	if text == "" {
		if s.LanguageID == multiFile {
			r.faults.add(name, "can't be blank")
		}
		return
	}
	if base64.StdEncoding.DecodedLen(len(text)) > maxArchive {
		r.faults.add(name, "is too large (maximum is %d kilobytes)", maxArchive>>10)
		return
	}
	s.Files = decode64(text)
}

// maxArchive is how large a zip may be, in bytes: an answer with all of its fields has memory for it.
const maxArchive = 4 << 20

func (r reader) source(s *submission) {
	blank := strings.TrimSpace(string(s.SourceCode)) == ""
	switch {
	case s.LanguageID == multiFile && !blank:
		r.faults.add("source_code", "must be blank")
	case s.LanguageID != multiFile && blank:
		r.faults.add("source_code", "can't be blank")
	}
}
