package scripttest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/script"
)

// calls: every call of a script names the arguments that its header does, also one that no test makes.
func calls(t *testing.T, l *script.Library, elsewhere []string) {
	t.Helper()
	scripts, calls := map[string]*script.Script{}, map[string][]*ast.CallExpr{}
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec: // createScript = scripts.Load("create")
				if c, ok := oneValue(n).(*ast.CallExpr); ok && isSelector(c.Fun, "Load") {
					name, _ := strconv.Unquote(c.Args[0].(*ast.BasicLit).Value)
					scripts[n.Names[0].Name] = l.Load(name)
				}
			case *ast.CallExpr: // createScript.Run(…), runEach(…, createScript, …)
				of := n.Args
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name != "Load" {
					of = append(slices.Clone(of), f.X)
				}
				for _, x := range of {
					if i, ok := x.(*ast.Ident); ok && strings.HasSuffix(i.Name, "Script") {
						calls[i.Name] = append(calls[i.Name], n)
					}
				}
			}
			return true
		})
	}
	if len(scripts) != len(l.Names("*")) {
		t.Errorf("%d scripts are loaded, of %d", len(scripts), len(l.Names("*")))
	}
	for name, s := range scripts {
		if len(calls[name]) == 0 {
			t.Errorf("nothing calls %s", name)
		}
		want := slices.Sorted(slices.Values(s.Params()))
		for _, c := range calls[name] {
			got, ok := named(c)
			if !ok {
				if !slices.Contains(elsewhere, name) {
					t.Errorf("a call of %s has its arguments from elsewhere", name)
				}
			} else if !slices.Equal(got, want) {
				t.Errorf("a call of %s: got %v, want %v", name, got, want)
			}
		}
	}
}

// named are the names in the script.Args literal of a call, if it has one of its own.
func named(call *ast.CallExpr) (names []string, ok bool) {
	for _, a := range call.Args {
		ast.Inspect(a, func(n ast.Node) bool {
			if l, is := n.(*ast.CompositeLit); is && isSelector(l.Type, "Args") {
				ok = true
				for _, e := range l.Elts {
					name, _ := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
					names = append(names, name)
				}
			}
			_, another := n.(*ast.CallExpr)
			return !another
		})
	}
	slices.Sort(names)
	return names, ok
}

func sources(t *testing.T) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func oneValue(s *ast.ValueSpec) ast.Expr {
	if len(s.Values) == 1 {
		return s.Values[0]
	}
	return nil
}

// isSelector reports whether that is name of something: of a package, say.
func isSelector(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == name
}
