package job

import (
	"fmt"
	"strings"
)

// MaxShellBytes bounds each of a job's [Commands].
const MaxShellBytes = 4096

// Commands are lines for a shell in the sandbox, in place of a runtime's own commands.
type Commands struct {
	// Compile, if it is not "", is run once, and has to succeed.
	Compile string `json:"compile,omitempty" doc:"Run first, once; it has to succeed. Absent: nothing is compiled." example:"gcc -O2 -o /tmp/main *.c"`
	// Run is the program. Args of the job, and of a test, are its "$@".
	Run string `json:"run" doc:"The program. args, and those of a test, are its \"$@\"." example:"/tmp/main \"$@\""`
}

// Argv returns what a sandbox executes for the two: each line is one argument of its shell. compile is nil
// if there is nothing to compile.
func (c Commands) Argv(args []string) (compile, run []string) {
	const shell = "/bin/bash" // each runtime's image has it, and a job's PATH must not choose another
	if c.Compile != "" {
		compile = []string{shell, "-c", "--", c.Compile, "bash"}
	}
	return compile, append([]string{shell, "-c", "--", c.Run, "bash"}, args...)
}

func (s Spec) checkCommands(add addFunc) {
	if s.Commands == nil {
		return
	}
	if s.Image != "" || len(s.Command) > 0 {
		add("commands", nil, "is there beside image", "a runtime, or command for an image")
	}
	if strings.TrimSpace(s.Commands.Run) == "" {
		add("commands.run", nil, "is missing", "a command line for bash")
	}
	for _, line := range []struct{ field, text string }{{"compile", s.Commands.Compile}, {"run", s.Commands.Run}} {
		if problem := checkString(line.text, MaxShellBytes); problem != "" {
			add("commands."+line.field, clip(line.text), problem, fmt.Sprintf("up to %d bytes without NUL", MaxShellBytes))
		}
	}
}
