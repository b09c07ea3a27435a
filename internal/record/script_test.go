package record

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// scriptFiles are the names of all scripts, sorted.
func scriptFiles() (names []string) {
	files, err := fs.Glob(luaFiles, "lua/*.lua")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(f, "lua/"), ".lua"))
	}
	return names
}

var topLevel = regexp.MustCompile(`(?m)^local (?:function )?([\w, ]+)`)

// A name that two files of a script declare would mean one thing above and another below.
func TestScriptsDeclareNamesOnce(t *testing.T) {
	t.Parallel()
	for _, name := range scriptFiles() {
		declared := map[string]bool{}
		for _, m := range topLevel.FindAllStringSubmatch(load(name).text, -1) {
			for local := range strings.SplitSeq(m[1], ",") {
				if local = strings.TrimSpace(local); declared[local] {
					t.Errorf("lua/%s.lua: %s is declared twice", name, local)
				}
				declared[local] = true
			}
		}
	}
}

// What a header declares, its file uses.
func TestHeadersDeclareWhatIsUsed(t *testing.T) {
	t.Parallel()
	shared, err := fs.Glob(luaFiles, "lua/shared/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	files := scriptFiles()
	for _, f := range shared {
		files = append(files, strings.TrimSuffix(strings.TrimPrefix(f, "lua/"), ".lua"))
	}
	included, constant := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		h := readHeader(file)
		for _, d := range h.tags {
			switch d.kind {
			case "include":
				included["shared/"+d.name] = true
			case "answer":
			default:
				constant[d.name] = constant[d.name] || d.kind == "const"
				if !regexp.MustCompile(`\b` + d.name + `\b`).MatchString(h.body) {
					t.Errorf("lua/%s.lua declares %s and doesn't use it", file, d.name)
				}
			}
			if d.kind != "include" && d.about == "" {
				t.Errorf("lua/%s.lua doesn't say what %s is", file, d.name)
			}
		}
		if h.about == "" {
			t.Errorf("lua/%s.lua doesn't say what it is", file)
		}
	}
	for _, file := range files {
		if strings.HasPrefix(file, "shared/") && !included[file] {
			t.Errorf("nothing includes lua/%s.lua", file)
		}
	}
	for name := range constants {
		if !constant[name] {
			t.Errorf("no script uses the constant %s", name)
		}
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(){
		"one is missing":   func() { renewBatchScript.argv(args{"id": "x"}, nil) },
		"one is unknown":   func() { renewBatchScript.argv(args{"id": "x", "due": 1, "now": 1}, nil) },
		"one is misspelt":  func() { renewBatchScript.argv(args{"id": "x", "dew": 1}, nil) },
		"there is no list": func() { renewBatchScript.argv(args{"id": "x", "due": 1}, []any{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it is not noticed")
				}
			}()
			call()
		})
	}
}
