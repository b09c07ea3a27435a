package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// modulesOf returns the modules that programs are of or link, beside Glovebox itself, in order of their paths.
func modulesOf(programs ...program) []debug.Module {
	all := map[string]debug.Module{}
	for _, p := range programs {
		modules := p.info.Deps
		if p.info.Main.Sum != "" { // one that was not built in a tree of its own
			modules = append([]*debug.Module{&p.info.Main}, modules...)
		}
		for _, m := range modules {
			if m.Replace != nil {
				m = m.Replace
			}
			if all[m.Path+"@"+m.Version].Sum == "" { // a vendored one has none
				all[m.Path+"@"+m.Version] = debug.Module{Path: m.Path, Version: m.Version, Sum: m.Sum}
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b debug.Module) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version, b.Version))
	})
}

// licenceFile matches what modules call the files that have to go with copies of them.
var licenceFile = regexp.MustCompile(`(?i)^((?:un)?licen[cs]e|copying|copyright|notice|patents)([-._].*)?$`)

// licences returns a text that has the licences of all modules that the programs link, and of Go.
func (r *release) licences(ctx context.Context, programs []program) ([]byte, error) {
	r.say("collect", "licences")
	modules := modulesOf(programs...)
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.work // a module's own go.mod must not replace what another's program links
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find the modules: %w\n%s", err, stderr.Bytes())
	}
	goRoot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go: %w", err)
	}
	all := licenceTexts{users: map[string][]string{}}
	if err := all.add("Go's standard library and runtime, "+r.source.goVersion, strings.TrimSpace(string(goRoot))); err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var m struct{ Path, Version, Dir, Error string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("find the modules: %w", err)
		}
		if m.Error != "" {
			return nil, fmt.Errorf("find %s: %s", m.Path, m.Error)
		}
		if err := all.add(m.Path+" "+m.Version, m.Dir); err != nil {
			return nil, err
		}
	}
	return all.join(), nil
}

// licenceTexts are the texts, in the order in which they came, each with its users.
type licenceTexts struct {
	texts []string
	users map[string][]string
}

// add adds the texts of a module that lies in dir. One without any fails: somebody has to look.
func (l *licenceTexts) add(user, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for the licence of %s: %w", user, err)
	}
	found := false
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("read the licence of %s: %w", user, err)
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
		if l.users[text] == nil {
			l.texts = append(l.texts, text)
		}
		l.users[text] = append(l.users[text], user)
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", user, dir)
	}
	return nil
}

func (l *licenceTexts) join() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "What Glovebox's programs, runsc and versitygw are made of, and the licences that it comes under.")
	for _, text := range l.texts {
		fmt.Fprintf(&b, "\n%s\n\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(l.users[text], "\n"), text)
	}
	return b.Bytes()
}
