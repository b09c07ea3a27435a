package judge0

import (
	"strings"

	"github.com/glovebox-run/glovebox/internal/shell"
	"github.com/glovebox-run/glovebox/runtimes"
)

// forbidden is what Judge0 takes out of options and arguments before a shell sees them. Here that shell
// is in the sandbox, which is what keeps it from doing harm.
var forbidden = strings.NewReplacer("$", "", "&", "", ";", "", "<", "", ">", "", "|", "", "`", "")

// compileLine is the shell line that compiles a program, "" for a language that isn't compiled. Options are put
// before the file's name, as they are.
func (o offered) compileLine(options string) string {
	if o.run != "" {
		return o.compile
	}
	return shellLine(o.definition.Compile, o.source(), options)
}

// runLine is the shell line that runs it. Arguments are put at its end, as they are.
func (o offered) runLine(arguments string) string {
	line := o.run
	if line == "" {
		line = shellLine(o.definition.Run, o.source(), "")
	}
	return strings.TrimRight(line+" "+arguments, " ")
}

// shellLine writes a command of a runtime for a shell, with options before its file.
func shellLine(command []string, file, options string) string {
	var words []string
	for _, word := range command {
		if word == runtimes.FilePlaceholder && options != "" {
			words = append(words, options)
		}
		words = append(words, shell.Quote(strings.ReplaceAll(word, runtimes.FilePlaceholder, file)))
	}
	return strings.Join(words, " ")
}
