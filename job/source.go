package job

import (
	"fmt"
	"slices"
	"strings"
)

// CheckSource returns what is wrong with the spec, as [Invalid] or nil, if source becomes
// a file of that name: one that its runtime chose, which Check can't know.
func (s Spec) CheckSource(file string) error {
	i := s.besideSource(file)
	if s.Source == "" || i < 0 {
		return nil
	}
	return Invalid{{
		fmt.Sprintf("files[%d].name", i), clip(s.Files[i].Name), "can't be beside source, which becomes " + clip(file),
		"another name, or one for source in entrypoint",
	}}
}

// besideSource finds one of files[] that can't be there beside a file of that name: it is
// the same, or one of the two is where the other needs a directory. -1: there is none.
func (s Spec) besideSource(file string) int {
	return slices.IndexFunc(s.Files, func(f File) bool {
		return f.Name == file || strings.HasPrefix(f.Name, file+"/") || strings.HasPrefix(file, f.Name+"/")
	})
}
