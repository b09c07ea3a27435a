package judge0

import (
	"encoding/base64"
	"errors"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// spec is the job that runs a submission.
func (s *submission) spec(o offered, languages catalog) (job.Spec, error) {
	spec := job.Spec{Runtime: o.runtime, Limits: s.limits(), MergeStderr: s.Redirect}
	if s.stackWasAsked || o.definition.Compile != nil {
		spec.Limits.StackMB = in1024s(s.Stack)
	}
	if utf8.Valid(s.Stdin) {
		spec.Stdin = string(s.Stdin)
	} else {
		spec.StdinBase64 = base64.StdEncoding.EncodeToString(s.Stdin)
	}
	for _, f := range s.unpacked {
		if s.LanguageID != multiFile && f.name == o.source() {
			continue // what is there already is not replaced
		}
		spec.Files = append(spec.Files, job.File{Name: f.name, ContentBase64: base64.StdEncoding.EncodeToString(f.content)})
	}
	switch {
	case s.LanguageID == multiFile: // its files are all that it has
	case utf8.Valid(s.SourceCode):
		spec.Source = string(s.SourceCode)
	default:
		spec.Files = append(spec.Files, job.File{Name: o.source(), ContentBase64: base64.StdEncoding.EncodeToString(s.SourceCode)})
	}
	spec.Limits.SourceKB = max(in1024s(spec.InputBytes()), 1)
	if s.LanguageID == multiFile {
		return spec, s.multiFile(&spec, languages)
	}
	if o.file != "" || spec.Source == "" {
		spec.Entrypoint = o.source()
	}
	options, arguments := line(s.Options), line(s.Arguments)
	if o.run != "" || options != "" || arguments != "" {
		spec.Commands = &job.Commands{Compile: o.compileLine(options), Run: o.runLine(arguments)}
	}
	return spec, nil
}

// limits are the job's. max_file_size is that of stdout and stderr: files have the job's directory, since a
// compiler, or an interpreter for its own use, writes larger ones than a program may print.
func (s *submission) limits() job.Limits {
	const second = 1000 // ms
	return job.Limits{
		CompileWallMS: int64(min(max(s.WallTime, facade.CompileTime.Seconds()), s.most.wallTime) * second),
		WallMS:        int64(math.Round(s.WallTime * second)), CPUMS: min(max(int64(math.Round((s.CPUTime+s.ExtraTime)*second)), 1), s.most.cpuMS),
		MemoryMB: in1024s(s.Memory), Processes: s.Processes, OutputKB: max(s.FileSize, 1),
	}
}

// in1024s divides by 1024, and rounds up.
func in1024s(n int64) int64 { return (n + 1023) / 1024 }

// line is what a shell gets of options or arguments.
func line(text *string) string {
	if text == nil {
		return ""
	}
	return strings.TrimSpace(forbidden.Replace(*text))
}

// classroom is the runtime of programs of several files where workers offer it: it has the compilers and interpreters of the
// others that are named here, so that a program may have files of each.
const classroom = "classroom"

var inClassroom = []string{"java", "cpp", "c", "node", "php", "ruby", "perl", "python"}

// multiFileRuntimes are whose image a program of several files gets otherwise, by the files that it has. The first that fits counts.
var multiFileRuntimes = []struct{ extension, runtime string }{
	{".java", "java"},
	{".cpp", "cpp"},
	{".cc", "cpp"},
	{".cxx", "cpp"},
	{".c", "c"},
	{".go", "go"},
	{".rs", "rust"},
	{".ts", "typescript"},
	{".js", "node"},
	{".cs", "csharp"},
	{".hs", "haskell"},
	{".pas", "pascal"},
	{".f90", "fortran"},
	{".d", "d"},
	{".ml", "ocaml"},
	{".php", "php"},
	{".rb", "ruby"},
	{".pl", "perl"},
	{".lua", "lua"},
	{".r", "r"},
	{".R", "r"},
	{".py", "python"},
}

var errNoRun = errors.New("has no file run or run.sh")

// multiFile makes a program of several files, which are in spec already, a job.
func (s *submission) multiFile(spec *job.Spec, languages catalog) error {
	has := func(name string) bool {
		return slices.ContainsFunc(s.unpacked, func(f file) bool { return f.name == name })
	}
	first := func(names ...string) string {
		i := slices.IndexFunc(names, has)
		if i < 0 {
			return ""
		}
		return names[i]
	}
	run, compile := first("run", "run.sh"), first("compile", "compile.sh")
	if run == "" {
		return errNoRun
	}
	spec.Commands = &job.Commands{Run: "bash " + run + " " + line(s.Arguments)}
	if compile != "" {
		spec.Commands.Compile = "bash " + compile
	}
	spec.Entrypoint = run
	for _, known := range multiFileRuntimes {
		i := slices.IndexFunc(languages, func(o offered) bool { return o.runtime == known.runtime })
		if i >= 0 && slices.ContainsFunc(s.unpacked, func(f file) bool { return path.Ext(f.name) == known.extension }) {
			if spec.Runtime != classroom || !slices.Contains(inClassroom, known.runtime) {
				spec.Runtime = known.runtime
				if !s.memoryWasAsked {
					s.Memory = max(s.Memory, min(languages[i].limits.MemoryMB<<10, s.most.memory))
					spec.Limits.MemoryMB = in1024s(s.Memory)
				}
			}
			break
		}
	}
	return nil
}
