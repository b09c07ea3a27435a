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

// sessionCommand replaces "{session.py}" and the like in the command by what that file of the folder holds, or "{python/session.py}" by what that of another
// one does, the code: so the image has nothing of it.
func sessionCommand(fsys fs.FS, folder string, command []string) (_ []string, code []byte, err error) {
	command = slices.Clone(command)
	for i, word := range command {
		name, isFile := strings.CutPrefix(word, "{")
		name, closed := strings.CutSuffix(name, "}")
		if !isFile || !closed || !strings.HasPrefix(path.Base(name), sessionPrefix) {
			continue
		}
		if !strings.Contains(name, "/") {
			name = path.Join(folder, name)
		}
		if code, err = fs.ReadFile(fsys, name); err != nil {
			return nil, nil, fmt.Errorf("session: %w", err)
		}
		command[i] = string(code)
	}
	if len(command) > 0 && command[0] == "" {
		return nil, nil, errors.New("session: the program's name is empty")
	}
	return command, code, nil
}
