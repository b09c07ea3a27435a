// Package script runs Lua scripts in Redis, whose arguments have names. Start at [New].
package script

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Key is a key of a tenant. All of them share one hash tag, so that a script touches one slot.
func Key(tenant, rest string) string { return "gb:{" + tenant + "}:" + rest }

// Library is the scripts of a package, a file of lua/ each.
type Library struct {
	files     fs.FS
	constants map[string]any
}

// New returns the scripts of files. constants are the numbers of Go that they know by name; a
// duration is in ms.
func New(files fs.FS, constants map[string]any) *Library { return &Library{files, constants} }

// Script is a Lua script of lua/. KEYS[1], its only key, is what all keys of the tenant begin
// with, so that it touches one slot. The header at the top of its file declares, a line each,
//
//	-- @include NAME   a piece of lua/shared that comes before it
//	-- @const NAME     one of the library's constants
//	-- @arg NAME       an argument, as Redis passes it: a string
//	-- @number NAME    an argument that becomes a number
//	-- @rest NAME      the list at the end: NAME is where in ARGV it begins
//	-- @answer WORDS   what the script may answer, for the reader
//
// and all but the last become locals of that name. Before them are call, which is redis.call,
// and t, which is KEYS[1].
type Script struct {
	name   string
	params []string // of ARGV, in order
	rest   bool     // whether a list follows them
	text   string
	lua    *redis.Script
}

// Text is the script as Redis gets it.
func (s *Script) Text() string { return s.text }

// Hash is the script's name in Redis.
func (s *Script) Hash() string { return s.lua.Hash() }

// Params are the names of the arguments, in their order.
func (s *Script) Params() []string { return s.params }

// Load reads a script. It panics where the header doesn't fit its files or the constants.
func (l *Library) Load(name string) *Script {
	s := &Script{name: name}
	text, declared := &strings.Builder{}, map[string]bool{}
	text.WriteString("local call, t = redis.call, KEYS[1]\n")
	l.write(s, text, declared, name)
	s.text = text.String()
	s.lua = redis.NewScript(s.text)
	return s
}

// write appends a file to the script's text, behind the files that it includes. declared is what is there.
func (l *Library) write(s *Script, text *strings.Builder, declared map[string]bool, file string) {
	h := l.Read(file)
	for _, d := range h.Tags {
		key := d.Kind + " " + d.Name
		if d.Kind == "answer" || declared[key] && (d.Kind == "include" || d.Kind == "const") {
			continue
		}
		if declared[key] || s.rest {
			panic(fmt.Sprintf("lua/%s.lua: %s is declared twice, or after @rest", file, key))
		}
		declared[key] = true
		next := len(s.params) + 1 // in ARGV
		switch d.Kind {
		case "include":
			l.write(s, text, declared, "shared/"+d.Name)
		case "const":
			value, ok := l.constants[d.Name]
			if !ok {
				panic(fmt.Sprintf("lua/%s.lua: there is no constant %s", file, d.Name))
			}
			switch whole := Plain(value).(type) {
			case int, int64:
				fmt.Fprintf(text, "local %s = %d\n", d.Name, whole)
			default:
				panic(fmt.Sprintf("constant %s is a %T: want a whole number, or a duration", d.Name, value))
			}
		case "arg":
			s.params = append(s.params, d.Name)
			fmt.Fprintf(text, "local %s = ARGV[%d]\n", d.Name, next)
		case "number":
			s.params = append(s.params, d.Name)
			fmt.Fprintf(text, "local %s = tonumber(ARGV[%d])\n", d.Name, next)
		case "rest":
			s.rest = true
			fmt.Fprintf(text, "local %s = %d\n", d.Name, next)
		default:
			panic(fmt.Sprintf("lua/%s.lua: what is @%s?", file, d.Kind))
		}
	}
	text.WriteString(h.Body)
}

// Args are a script's arguments by name. A time is passed in ms, "" for the zero one; a duration
// in ms; true as 1, false as "".
type Args map[string]any

// Run runs the script on a tenant's keys. It panics for arguments that the header doesn't name,
// and for those that are missing: the call is wrong, and no test has made it.
func (s *Script) Run(ctx context.Context, rdb redis.Scripter, tenant string, a Args, rest ...any) *redis.Cmd {
	return s.lua.Run(ctx, rdb, []string{Key(tenant, "")}, s.argv(a, rest)...)
}

// Load makes sure that Redis knows the script, for Pipe: a pipeline can't fall back on its text.
func (s *Script) Load(ctx context.Context, rdb redis.Scripter) error {
	return s.lua.Load(ctx, rdb).Err()
}

// Pipe is Run in a pipeline. The caller has called Load.
func (s *Script) Pipe(ctx context.Context, pipe redis.Pipeliner, tenant string, a Args, rest ...any) *redis.Cmd {
	return s.lua.EvalSha(ctx, pipe, []string{Key(tenant, "")}, s.argv(a, rest)...)
}

func (s *Script) argv(a Args, rest []any) []any {
	list := make([]any, 0, len(s.params)+len(rest))
	for _, name := range s.params {
		v, ok := a[name]
		if !ok {
			panic(fmt.Sprintf("lua/%s.lua wants the argument %s", s.name, name))
		}
		list = append(list, Plain(v))
	}
	if len(a) != len(s.params) || len(rest) > 0 && !s.rest {
		// Not the values: they are users' code.
		panic(fmt.Sprintf("lua/%s.lua takes %v, got %v and %d more", s.name, s.params, slices.Sorted(maps.Keys(a)), len(rest)))
	}
	return append(list, rest...)
}

// Plain is a value as scripts get it.
func Plain(v any) any {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UnixMilli()
	case time.Duration:
		return v.Milliseconds()
	case bool:
		if !v {
			return ""
		}
		return 1
	}
	return v
}

// Header is the comment at the top of a script's file, and Body what follows.
type Header struct {
	About string
	Tags  []Tag
	Body  string
}

// Tag is a line of a header.
type Tag struct{ Kind, Name, About string }

// Names are the library's scripts, sorted; with "shared/*" the pieces that scripts include.
func (l *Library) Names(pattern string) (names []string) {
	files, err := fs.Glob(l.files, "lua/"+pattern+".lua")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(f, "lua/"), ".lua"))
	}
	return names
}

// Constants are the numbers that the library's scripts know by name.
func (l *Library) Constants() map[string]any { return l.constants }

// Read returns the header of a file of lua/, by its name without .lua.
func (l *Library) Read(file string) (h Header) {
	b, err := fs.ReadFile(l.files, "lua/"+file+".lua")
	if err != nil {
		panic(err)
	}
	for h.Body = string(b); strings.HasPrefix(h.Body, "-- "); {
		var line string
		line, h.Body, _ = strings.Cut(h.Body, "\n")
		line = strings.TrimPrefix(line, "-- ")
		kind, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(kind, "@"):
			cut := " "
			if kind == "@answer" { // of several words
				cut = "  "
			}
			name, about, _ := strings.Cut(rest, cut)
			h.Tags = append(h.Tags, Tag{kind[1:], name, strings.TrimSpace(about)})
		case len(h.Tags) > 0: // it goes on
			h.Tags[len(h.Tags)-1].About += " " + strings.TrimSpace(line)
		default:
			h.About = strings.TrimSpace(h.About + " " + line)
		}
	}
	return h
}
