package judge0

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/runtimes"
)

// language is one of Judge0's, on a runtime of Glovebox.
type language struct {
	// ids by which clients know it: that of 1.13.1, those of other versions of the language, and those that
	// Judge0's hosted version has added. All are the same here.
	ids []int
	// label is its name; %s stands for the version.
	label   string
	runtime string
	// takesOptions says that its compiler takes options.
	takesOptions bool
	// file is what the source is called, and compile and run are what a shell does, where that is not the
	// runtime's own.
	file, compile, run string
}

// Languages whose source is not a program's text.
const (
	executable = 44
	multiFile  = 89
)

// lastArchived is the highest id of those that Judge0 had before 1.0, none of which can be used any more.
const lastArchived = 42

var languages = []language{
	{ids: []int{45}, label: "Assembly (NASM %s)", runtime: "nasm"},
	{ids: []int{46}, label: "Bash (%s)", runtime: "bash"},
	{ids: []int{50, 48, 49, 103}, label: "C (GCC %s)", runtime: "c", takesOptions: true},
	{ids: []int{54, 52, 53, 105}, label: "C++ (GCC %s)", runtime: "cpp", takesOptions: true},
	{ids: []int{51}, label: "C# (Mono %s)", runtime: "csharp", takesOptions: true},
	{ids: []int{86}, label: "Clojure (%s)", runtime: "clojure"},
	{ids: []int{77}, label: "COBOL (GnuCOBOL %s)", runtime: "cobol", takesOptions: true},
	{ids: []int{55}, label: "Common Lisp (SBCL %s)", runtime: "lisp"},
	{ids: []int{56}, label: "D (GDC %s)", runtime: "d", takesOptions: true},
	{ids: []int{57}, label: "Elixir (%s)", runtime: "elixir"},
	{ids: []int{58}, label: "Erlang (OTP %s)", runtime: "erlang"},
	{ids: []int{executable}, label: "Executable", runtime: "bash", file: "a.out", run: "chmod +x a.out && ./a.out"},
	{ids: []int{59}, label: "Fortran (GFortran %s)", runtime: "fortran", takesOptions: true},
	{ids: []int{60, 95, 106, 107}, label: "Go (%s)", runtime: "go", takesOptions: true},
	{ids: []int{88}, label: "Groovy (%s)", runtime: "groovy"},
	{ids: []int{61}, label: "Haskell (GHC %s)", runtime: "haskell", takesOptions: true},
	{ids: []int{62, 91}, label: "Java (OpenJDK %s)", runtime: "java"},
	{ids: []int{63, 93, 97, 102}, label: "JavaScript (Node.js %s)", runtime: "node"},
	{ids: []int{64}, label: "Lua (%s)", runtime: "lua"},
	{ids: []int{multiFile}, label: "Multi-file program", runtime: "bash"},
	{ids: []int{65}, label: "OCaml (%s)", runtime: "ocaml"},
	{ids: []int{66}, label: "Octave (%s)", runtime: "octave"},
	{ids: []int{67}, label: "Pascal (FPC %s)", runtime: "pascal", takesOptions: true},
	{ids: []int{85}, label: "Perl (%s)", runtime: "perl"},
	{ids: []int{68, 98}, label: "PHP (%s)", runtime: "php"},
	{ids: []int{43}, label: "Plain Text", runtime: "bash", file: "text.txt", run: "cat text.txt"},
	{ids: []int{69}, label: "Prolog (SWI-Prolog %s)", runtime: "prolog"},
	{ids: []int{71, 92, 100, 109, 113}, label: "Python (%s)", runtime: "python"},
	{ids: []int{80, 99}, label: "R (%s)", runtime: "r"},
	{ids: []int{72}, label: "Ruby (%s)", runtime: "ruby"},
	{ids: []int{73, 108}, label: "Rust (%s)", runtime: "rust", takesOptions: true},
	{ids: []int{81, 112}, label: "Scala (%s)", runtime: "scala"},
	{ids: []int{82}, label: "SQL (SQLite %s)", runtime: "sql", file: "script.sql", run: "cat script.sql | sqlite3 db.sqlite"},
	{ids: []int{74, 94, 101}, label: "TypeScript (Node.js %s)", runtime: "typescript"},
}

// definitions are the runtimes that come with Glovebox: what workers run is built of the same.
var definitions = sync.OnceValues(runtimes.Embedded)

// offered is a language that there are workers for.
type offered struct {
	language

	version    string
	limits     job.Limits // of the runtime
	definition runtimes.Runtime
}

// name is as clients show it.
func (o offered) name() string {
	if !strings.Contains(o.label, "%s") {
		return o.label
	}
	return fmt.Sprintf(o.label, o.version)
}

// source is the name of the main file.
func (o offered) source() string {
	if o.file != "" {
		return o.file
	}
	return o.definition.File
}

// catalog are the languages that the tenant's jobs can have.
type catalog []offered

func readCatalog(ctx context.Context, c *facade.Call) (catalog, error) {
	set, err := definitions()
	if err != nil {
		return nil, err
	}
	published, err := c.Client.Runtimes(ctx)
	if err != nil {
		return nil, err
	}
	return catalogOf(set, published), nil
}

// catalogOf are the languages of published runtimes.
func catalogOf(set runtimes.Set, published []producer.Runtime) (list catalog) {
	place := func(runtime string) int {
		return slices.IndexFunc(published, func(r producer.Runtime) bool { return r.Name == runtime })
	}
	for _, l := range languages {
		if slices.Contains(l.ids, multiFile) && place(classroom) >= 0 {
			l.runtime = classroom
		}
		i := place(l.runtime)
		definition, ok := set.Lookup(l.runtime)
		if i < 0 || !ok {
			continue
		}
		list = append(list, offered{l, published[i].Version, published[i].Limits, definition})
	}
	return list
}

// find returns the language that has this id.
func (c catalog) find(id int) (offered, bool) {
	i := slices.IndexFunc(c, func(o offered) bool { return slices.Contains(o.ids, id) })
	if i < 0 {
		return offered{}, false
	}
	return c[i], true
}

// takingOptions are the names of languages whose compilers take options.
func (c catalog) takingOptions() []string {
	names := []string{}
	for _, o := range c {
		if o.takesOptions {
			names = append(names, o.name())
		}
	}
	return names
}

// languageEntry is a language as it is listed.
type languageEntry struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// archivable is one with what the whole list has.
type archivable struct {
	languageEntry

	Archived bool `json:"is_archived"`
}

// languageDetails are all that is said of one.
type languageDetails struct {
	archivable

	SourceFile *string `json:"source_file"`
	Compile    *string `json:"compile_cmd"`
	Run        *string `json:"run_cmd"`
}

// entries lists each id, by name, the one of 1.13.1 first.
func (c catalog) entries() []archivable {
	list := []archivable{}
	for _, o := range c {
		for _, id := range o.ids {
			list = append(list, archivable{languageEntry: languageEntry{id, o.name()}})
		}
	}
	slices.SortStableFunc(list, func(a, b archivable) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return list
}

func listLanguages(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	list, err := readCatalog(r.Context(), c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	short := []languageEntry{}
	for _, e := range list.entries() {
		short = append(short, e.languageEntry)
	}
	writeJSON(w, http.StatusOK, short)
}

func listAllLanguages(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	list, err := readCatalog(r.Context(), c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	writeJSON(w, http.StatusOK, list.entries())
}

func showLanguage(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	list, err := readCatalog(r.Context(), c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	id, err := strconv.Atoi(r.PathValue("id"))
	o, ok := list.find(id)
	if err != nil || !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	d := languageDetails{archivable: archivable{languageEntry: languageEntry{id, o.name()}}}
	if id != multiFile {
		file, run := o.source(), o.runLine("")
		d.SourceFile, d.Run = &file, &run
		if compile := o.compileLine(map[bool]string{true: "%s"}[o.takesOptions]); compile != "" {
			d.Compile = &compile
		}
	}
	writeJSON(w, http.StatusOK, d)
}
