package job

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a [Spec] that no limit changes.
const (
	MaxArgs        = 256
	MaxEnv         = 128
	MaxFiles       = 256
	MaxStringBytes = 32 << 10 // one argument or environment value
	// MaxWordsBytes bounds command, args and env together: gVisor hands a program no more than 2 MiB,
	// which the runtime's own are a part of.
	MaxWordsBytes    = 1 << 20
	MaxMetadata      = 32
	MaxMetadataBytes = 1024 // one key or value
	// MaxMetadataJSON bounds all metadata, as the JSON that is kept: a record, and each
	// message and page that it is in, is to stay small, whatever characters there are.
	MaxMetadataJSON = 16 << 10
	MaxURLBytes     = 2048
	MaxKeyBytes     = 255 // an idempotency key
	MaxRunAhead     = 30 * 24 * time.Hour
)

// Check returns what is wrong with the spec as [Invalid], or nil. runtimes are the
// names and aliases that exist, images those that the operator allows, maximum what its
// limits may be.
func (s Spec) Check(runtimes, images []string, maximum Limits) error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}

	if s.SpecVersion < 0 || s.SpecVersion > SpecVersion {
		add("spec_version", s.SpecVersion, "is not known", fmt.Sprintf("0 or 1 to %d", SpecVersion))
	}
	if s.Image != "" || len(s.Command) > 0 {
		s.checkImage(add, images)
	} else {
		s.checkRuntime(add, runtimes)
	}
	s.checkCommands(add)
	s.checkInputs(add)
	s.checkStrings(add)
	s.checkSecrets(add)
	s.checkInteractive(add)
	if s.Problem != "" && !IsSHA256(s.Problem) {
		add("problem", clip(s.Problem), "is not a problem's digest", "64 lower-case hex digits")
	}
	errs = append(errs, s.checkTests()...)
	errs = append(errs, s.checkCheckerProgram(runtimes, maximum)...)
	if s.Callback != nil {
		s.Callback.check(add, EventCompleted)
	}
	if !slices.Contains([]Priority{"", High, Normal, Low}, s.Priority) {
		add("priority", clip(string(s.Priority)), "is not known", "high, normal, low")
	}
	if !s.Isolation.Suffices(s.Isolation) {
		add("isolation", clip(string(s.Isolation)), "is not known", JoinIsolations(Isolations()))
	}
	s.Placement.check(add, "placement", MaxPlacement)
	if s.RetentionSeconds < 0 || s.RetentionSeconds > MaxRetentionSeconds {
		add("retention_seconds", s.RetentionSeconds, "is out of range", fmt.Sprintf("0 (the tenant's) to %d", MaxRetentionSeconds))
	}
	limitErrs := s.Limits.Check(maximum)
	errs = append(errs, limitErrs...)
	if most := s.Limits.Or(DefaultLimits).SourceKB << 10; len(limitErrs) == 0 && s.InputBytes() > most {
		add("source", fmt.Sprintf("%d bytes with files and stdin", s.InputBytes()), "is too large",
			fmt.Sprintf("%d bytes (limits.source_kb, at most %d)", most, maximum.SourceKB))
	}
	s.checkTimes(add, time.Now())
	if problem := checkKey(s.IdempotencyKey); problem != "" {
		add("idempotency_key", clip(s.IdempotencyKey), problem, fmt.Sprintf("up to %d printable ASCII characters", MaxKeyBytes))
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

func (s Spec) checkTimes(add addFunc, now time.Time) {
	for _, f := range []struct {
		field string
		at    time.Time
	}{{"run_at", s.RunAt}, {"deadline", s.Deadline}} {
		if !inJSON(f.at) {
			add(f.field, f.at.Format(time.RFC3339), "is out of range", timesAllowed)
			return
		}
	}
	if s.RunAt.After(now.Add(MaxRunAhead)) {
		add("run_at", s.RunAt, "is too far ahead", fmt.Sprintf("up to %d days from now: %s", MaxRunAhead/(24*time.Hour), now.Add(MaxRunAhead).UTC().Format(time.RFC3339)))
	}
	switch {
	case s.Deadline.IsZero():
	case !s.Deadline.After(now):
		add("deadline", s.Deadline, "has passed", "a time to come; it is "+now.UTC().Format(time.RFC3339)+" here")
	case !s.Deadline.After(s.RunAt):
		add("deadline", s.Deadline, "is not after run_at", "a time after "+s.RunAt.UTC().Format(time.RFC3339))
	}
}

const timesAllowed = "a time from 1970 to 8999"

// inJSON reports whether a time, if there is one, can be written as JSON wherever it is read: that has years until 9999, and hours
// until 23 in what a zone differs from UTC.
func inJSON(t time.Time) bool {
	_, err := t.MarshalText()
	year := t.UTC().Year()
	return t.IsZero() || err == nil && year >= 1970 && year < 9000
}

type addFunc func(field string, value any, message, allowed string)

// checkRuntime checks which program a runtime is to run.
func (s Spec) checkRuntime(add addFunc, runtimes []string) {
	switch {
	case s.Runtime == "":
		add("runtime", nil, "is missing", strings.Join(runtimes, ", "))
	case !slices.Contains(runtimes, s.Runtime):
		add("runtime", clip(s.Runtime), "is not a runtime of this Glovebox", strings.Join(runtimes, ", "))
	}
	if s.Commands != nil { // they name what they need
		return
	}
	if s.Source == "" && len(s.Files) == 0 {
		add("source", nil, "is empty", "the program's text, or files[] with an entrypoint")
	}
	if s.Source == "" && len(s.Files) > 1 && s.Entrypoint == "" {
		add("entrypoint", nil, "is missing", "the name of one of files[]")
	}
}

func (s Spec) checkInputs(add addFunc) {
	// JSON would replace what is not UTF-8 without a word.
	if !utf8.ValidString(s.Source) {
		add("source", nil, "is not UTF-8", "text; bytes go in files[].content_base64")
	}
	if !utf8.ValidString(s.Stdin) {
		add("stdin", nil, "is not UTF-8", "text; bytes go in stdin_base64")
	}
	if s.Stdin != "" && s.StdinBase64 != "" {
		add("stdin_base64", clip(s.StdinBase64), "is there beside stdin", "one of the two")
	} else if _, err := s.StdinBytes(); err != nil {
		add("stdin_base64", clip(s.StdinBase64), "is not base64", "standard base64 with padding (RFC 4648)")
	}
	if len(s.Files) > MaxFiles {
		add("files", len(s.Files), "has too many entries", fmt.Sprintf("0 to %d", MaxFiles))
		return
	}
	names := map[string]bool{}
	for i, f := range s.Files {
		at := fmt.Sprintf("files[%d]", i)
		if problem := CheckName(f.Name); problem != "" {
			add(at+".name", clip(f.Name), problem, "a relative path such as data/in.csv")
		}
		if names[f.Name] {
			add(at+".name", clip(f.Name), "appears more than once", "each name once")
		}
		names[f.Name] = true
		if !utf8.ValidString(f.Content) {
			add(at+".content", clip(f.Name), "is not UTF-8", "text; bytes go in content_base64")
		}
		f.checkContent(add, at)
		if _, err := f.Bytes(); err != nil && !f.Kept() {
			add(at+".content_base64", clip(f.ContentBase64), "is not base64", "standard base64 with padding (RFC 4648)")
		}
	}
	for name := range names { // a file where another name needs a directory
		for dir := name; strings.Contains(dir, "/"); {
			dir = dir[:strings.LastIndex(dir, "/")]
			if names[dir] {
				add("files", clip(dir), "is both a file and a directory", "names that can exist beside each other")
			}
		}
	}
	if s.Entrypoint != "" && (s.Image == "" || s.Source != "") {
		if problem := CheckName(s.Entrypoint); problem != "" {
			add("entrypoint", clip(s.Entrypoint), problem, "a relative path such as main.py")
		} else if s.Source == "" && !names[s.Entrypoint] {
			add("entrypoint", clip(s.Entrypoint), "is not one of files[]", cmp.Or(strings.Join(fileNames(s.Files), ", "), "the name of a file that is there"))
		} else if s.Source != "" {
			if i := s.besideSource(s.Entrypoint); i >= 0 {
				add("entrypoint", clip(s.Entrypoint), fmt.Sprintf("names source, which can't be beside files[%d]", i), "another name")
			}
		}
	}
}

// checkContent checks that a file says once what it holds, and where.
func (f File) checkContent(add addFunc, at string) {
	var given []string
	for _, c := range []struct{ field, value string }{
		{"content", f.Content}, {"content_base64", f.ContentBase64}, {"artifact", f.Artifact}, {"upload", f.Upload},
	} {
		if c.value != "" {
			given = append(given, c.field)
		}
	}
	if len(given) > 1 {
		add(at, clip(f.Name), "has "+strings.Join(given, " and "), "one of them")
	}
	if f.Artifact != "" {
		id, name, ok := strings.Cut(f.Artifact, "/")
		if !ok || id == "" || CheckName(name) != "" {
			add(at+".artifact", clip(f.Artifact), "is not an artifact of a job", "<job id>/<name of its artifact>")
		}
	}
	if f.Upload != "" && !IsSHA256(f.Upload) {
		add(at+".upload", clip(f.Upload), "is not a SHA-256", "64 lower-case hex digits")
	}
	if f.SHA256 != "" && !IsSHA256(f.SHA256) {
		add(at+".sha256", clip(f.SHA256), "is not a SHA-256", "64 lower-case hex digits")
	} else if f.SHA256 != "" && f.Upload != "" && f.SHA256 != f.Upload {
		add(at+".sha256", f.SHA256, "is not that of the upload", "nothing, or the same")
	}
	switch {
	case f.Size < 0:
		add(at+".size", f.Size, "is negative", "the file's bytes")
	case !f.Kept() && f.Size > 0:
		add(at+".size", f.Size, "is there without artifact or upload", "one of these beside it")
	case !f.Kept() && f.SHA256 != "":
		add(at+".sha256", clip(f.SHA256), "is there without artifact or upload", "one of these beside it")
	}
}

// IsSHA256 reports whether s is a SHA-256 in lower-case hex.
func IsSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func (s Spec) checkStrings(add addFunc) {
	checkWords(add, "args", s.Args, MaxArgs)
	checkWords(add, "command", s.Command, MaxArgs+1)
	if len(s.Env) > MaxEnv {
		add("env", len(s.Env), "has too many entries", fmt.Sprintf("0 to %d", MaxEnv))
	} else {
		for k, v := range s.Env {
			if !envName(k) {
				add("env", clip(k), "is not a variable's name", "letters, digits and _, not starting with a digit")
			}
			if problem := checkString(v, MaxStringBytes); problem != "" {
				add("env."+clip(k), clip(v), problem, fmt.Sprintf("up to %d bytes without NUL", MaxStringBytes))
			}
		}
	}
	s.checkWordsTogether(add)
	own := s.Metadata
	if _, again := own[RegradeKey]; again { // it comes on top of what a submission may have
		own = maps.Clone(own)
		delete(own, RegradeKey)
	}
	checkMetadata(add, own)
}

// checkWordsTogether names the largest of command, args and env where a program could not be handed all.
func (s Spec) checkWordsTogether(add addFunc) {
	var command, args, env int
	for _, w := range s.Command {
		command += len(w) + 1
	}
	for _, w := range s.Args {
		args += len(w) + 1
	}
	for k, v := range s.Env {
		env += len(k) + len(v) + 2
	}
	total := command + args + env
	if total <= MaxWordsBytes {
		return
	}
	field := "args"
	switch max(command, args, env) {
	case command:
		field = "command"
	case env:
		field = "env"
	}
	add(field, fmt.Sprintf("%d bytes with the rest of command, args and env", total), "are too large", fmt.Sprintf("up to %d bytes together, with one more for each; files hold more", MaxWordsBytes))
}

func checkMetadata(add addFunc, metadata map[string]string) {
	if len(metadata) > MaxMetadata {
		message := "has too many entries"
		if OwnMetadata(metadata) != nil {
			message += ", with those that Glovebox adds"
		}
		add("metadata", len(metadata), message, fmt.Sprintf("0 to %d", MaxMetadata))
		return
	}
	var faulty []string
	for k, v := range metadata {
		if k == "" || max(len(k), len(v)) > MaxMetadataBytes {
			faulty = append(faulty, k)
		}
	}
	if len(faulty) > 0 {
		k := slices.Min(faulty) // the same one each time
		allowed := fmt.Sprintf("keys of 1 to %d bytes, values of 0 to %d", MaxMetadataBytes, MaxMetadataBytes)
		if k == "" || len(k) > MaxMetadataBytes {
			add("metadata", clip(k), "has a key of the wrong length", allowed)
		} else {
			add("metadata."+clip(k), clip(metadata[k]), "is too long", allowed)
		}
		return
	}
	if b, err := Marshal(metadata); err != nil || len(b) > MaxMetadataJSON {
		add("metadata", fmt.Sprintf("%d bytes as JSON", len(b)), "is too large", fmt.Sprintf("up to %d bytes as JSON", MaxMetadataJSON))
	}
}

// check checks a callback that can be told of these events.
func (c Callback) check(add addFunc, events ...string) {
	checkURL(add, "callback.url", c.URL)
	for i, e := range c.Events {
		if !slices.Contains(events, e) {
			add(fmt.Sprintf("callback.events[%d]", i), clip(e), "is not known", strings.Join(events, ", "))
		} else if slices.Contains(c.Events[:i], e) {
			add(fmt.Sprintf("callback.events[%d]", i), clip(e), "is there already", "each event once")
			return
		}
	}
}

// checkURL refuses what can't be the URL of a webhook, wherever it may lead.
func checkURL(add addFunc, field, raw string) {
	u, err := url.Parse(raw)
	switch {
	case strings.Contains(raw, "@") && (err != nil || u.User != nil): // never echoed: it may hold a password
		add(field, "(hidden)", "has a user name or password", "a URL without them; the signature proves who sent it")
	case len(raw) > MaxURLBytes:
		add(field, clip(raw), "is too long", fmt.Sprintf("up to %d bytes", MaxURLBytes))
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		add(field, clip(raw), "is not an http or https URL", "https://host/path")
	case !isASCII(u.Host):
		add(field, clip(raw), "has a host that is not ASCII", "the host's name as DNS has it, such as xn--bcher-kva.example")
	}
}

// checkKey says what is wrong with an idempotency key, or "".
func keyFault(key string) Invalid {
	problem := checkKey(key)
	if problem == "" {
		return nil
	}
	return Invalid{{"idempotency_key", clip(key), problem, fmt.Sprintf("up to %d printable ASCII characters", MaxKeyBytes)}}
}

func checkKey(s string) string {
	if len(s) > MaxKeyBytes {
		return "is too long"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "has a character that is not printable ASCII"
	}
	return ""
}

func envName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 256
}

func fileNames(files []File) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = clip(f.Name)
	}
	return names
}
