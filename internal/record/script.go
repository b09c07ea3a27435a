package record

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var luaFiles embed.FS

// script is a Lua script of lua/. KEYS[1], its only key, is what all keys of the tenant begin
// with, so that it touches one slot. The header at the top of its file declares, a line each,
//
//	-- @include NAME   a piece of lua/shared that comes before it
//	-- @const NAME     one of constants
//	-- @arg NAME       an argument, as Redis passes it: a string
//	-- @number NAME    an argument that becomes a number
//	-- @rest NAME      the list at the end: NAME is where in ARGV it begins
//	-- @answer WORDS   what the script may answer, for the reader
//
// and all but the last become locals of that name. Before them are call, which is redis.call,
// and t, which is KEYS[1].
type script struct {
	name   string
	params []string // of ARGV, in order
	rest   bool     // whether a list follows them
	text   string
	lua    *redis.Script
}

// load reads a script. It panics where the header doesn't fit its files or the constants.
func load(name string) *script {
	s := &script{name: name}
	text, declared := &strings.Builder{}, map[string]bool{}
	text.WriteString("local call, t = redis.call, KEYS[1]\n")
	s.write(text, declared, name)
	s.text = text.String()
	s.lua = redis.NewScript(s.text)
	return s
}

// write appends a file to the script's text, behind the files that it includes. declared is what is there.
func (s *script) write(text *strings.Builder, declared map[string]bool, file string) {
	h := readHeader(file)
	for _, d := range h.tags {
		key := d.kind + " " + d.name
		if d.kind == "answer" || declared[key] && (d.kind == "include" || d.kind == "const") {
			continue
		}
		if declared[key] || s.rest {
			panic(fmt.Sprintf("lua/%s.lua: %s is declared twice, or after @rest", file, key))
		}
		declared[key] = true
		next := len(s.params) + 1 // in ARGV
		switch d.kind {
		case "include":
			s.write(text, declared, "shared/"+d.name)
		case "const":
			value, ok := constants[d.name]
			if !ok {
				panic(fmt.Sprintf("lua/%s.lua: there is no constant %s", file, d.name))
			}
			switch whole := plain(value).(type) {
			case int, int64:
				fmt.Fprintf(text, "local %s = %d\n", d.name, whole)
			default:
				panic(fmt.Sprintf("constant %s is a %T: want a whole number, or a duration", d.name, value))
			}
		case "arg":
			s.params = append(s.params, d.name)
			fmt.Fprintf(text, "local %s = ARGV[%d]\n", d.name, next)
		case "number":
			s.params = append(s.params, d.name)
			fmt.Fprintf(text, "local %s = tonumber(ARGV[%d])\n", d.name, next)
		case "rest":
			s.rest = true
			fmt.Fprintf(text, "local %s = %d\n", d.name, next)
		default:
			panic(fmt.Sprintf("lua/%s.lua: what is @%s?", file, d.kind))
		}
	}
	text.WriteString(h.body)
}

// args are a script's arguments by name. A time is passed in ms, "" for the zero one; a duration
// in ms; true as 1, false as "".
type args map[string]any

// run runs the script on a tenant's keys. It panics for arguments that the header doesn't name,
// and for those that are missing: the call is wrong, and no test has made it.
func (s *script) run(ctx context.Context, rdb redis.Scripter, tenant string, a args, rest ...any) *redis.Cmd {
	return s.lua.Run(ctx, rdb, []string{tenantPrefix(tenant)}, s.argv(a, rest)...)
}

// load makes sure that Redis knows the script, for pipe: a pipeline can't fall back on its text.
func (s *script) load(ctx context.Context, rdb redis.Scripter) error {
	return s.lua.Load(ctx, rdb).Err()
}

// pipe is run in a pipeline. The caller has called load.
func (s *script) pipe(ctx context.Context, pipe redis.Pipeliner, tenant string, a args, rest ...any) *redis.Cmd {
	return s.lua.EvalSha(ctx, pipe, []string{tenantPrefix(tenant)}, s.argv(a, rest)...)
}

func (s *script) argv(a args, rest []any) []any {
	list := make([]any, 0, len(s.params)+len(rest))
	for _, name := range s.params {
		v, ok := a[name]
		if !ok {
			panic(fmt.Sprintf("lua/%s.lua wants the argument %s", s.name, name))
		}
		list = append(list, plain(v))
	}
	if len(a) != len(s.params) || len(rest) > 0 && !s.rest {
		// Not the values: they are users' code.
		panic(fmt.Sprintf("lua/%s.lua takes %v, got %v and %d more", s.name, s.params, slices.Sorted(maps.Keys(a)), len(rest)))
	}
	return append(list, rest...)
}

// plain is a value as scripts get it.
func plain(v any) any {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return ms(v)
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

// header is the comment at the top of a script's file, and body what follows.
type header struct {
	about string
	tags  []tag
	body  string
}

// tag is a line of a header.
type tag struct{ kind, name, about string }

func readHeader(file string) (h header) {
	b, err := luaFiles.ReadFile("lua/" + file + ".lua")
	if err != nil {
		panic(err)
	}
	for h.body = string(b); strings.HasPrefix(h.body, "-- "); {
		var line string
		line, h.body, _ = strings.Cut(h.body, "\n")
		line = strings.TrimPrefix(line, "-- ")
		kind, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(kind, "@"):
			cut := " "
			if kind == "@answer" { // of several words
				cut = "  "
			}
			name, about, _ := strings.Cut(rest, cut)
			h.tags = append(h.tags, tag{kind[1:], name, strings.TrimSpace(about)})
		case len(h.tags) > 0: // it goes on
			h.tags[len(h.tags)-1].about += " " + strings.TrimSpace(line)
		default:
			h.about = strings.TrimSpace(h.about + " " + line)
		}
	}
	return h
}
