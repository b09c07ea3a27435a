package runtimes

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// sessionPrefix is what the names of the files begin with that a session's command may have in it. They may be in another runtime's folder.
const sessionPrefix = "session."

// sessionCommand replaces "{session.py}", "{../node/session.js}" and the like in the command by what that file holds, the code: so the image
// has nothing of it. Paths begin in the runtime's folder.
func sessionCommand(fsys fs.FS, folder string, command []string) (_ []string, code []byte, err error) {
	command = slices.Clone(command)
	for i, word := range command {
		name, isFile := strings.CutPrefix(word, "{")
		name, closed := strings.CutSuffix(name, "}")
		if !isFile || !closed || !strings.HasPrefix(path.Base(name), sessionPrefix) {
			continue
		}
		if code, err = fs.ReadFile(fsys, path.Join(folder, name)); err != nil {
			return nil, nil, fmt.Errorf("session: %w", err)
		}
		command[i] = string(code)
	}
	if len(command) > 0 && command[0] == "" {
		return nil, nil, errors.New("session: the program's name is empty")
	}
	return command, code, nil
}
