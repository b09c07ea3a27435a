package record

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every call of a script names the arguments that its header does, also one that no test makes.
func TestCallsNameTheArguments(t *testing.T) {
	t.Parallel()
	scripts, calls := map[string]*script{}, map[string][]*ast.CallExpr{}
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec: // createScript = load("create")
				if c, ok := oneValue(n).(*ast.CallExpr); ok && isIdent(c.Fun, "load") {
					name, _ := strconv.Unquote(c.Args[0].(*ast.BasicLit).Value)
					scripts[n.Names[0].Name] = load(name)
				}
			case *ast.CallExpr: // createScript.run(…), askScript(…, createScript, …)
				of := n.Args
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name != "load" {
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
	if len(scripts) != len(scriptFiles()) {
		t.Errorf("%d scripts are loaded, of %d", len(scripts), len(scriptFiles()))
	}
	for name, s := range scripts {
		if len(calls[name]) == 0 {
			t.Errorf("nothing calls %s", name)
		}
		want := slices.Sorted(slices.Values(s.params))
		for _, c := range calls[name] {
			got, ok := named(c)
			if !ok { // the arguments come from finishArgs, or createMany: tests make these calls
				if name != "endScript" && name != "cancelScript" && name != "createScript" {
					t.Errorf("a call of %s has its arguments from elsewhere", name)
				}
			} else if !slices.Equal(got, want) {
				t.Errorf("a call of %s: got %v, want %v", name, got, want)
			}
		}
	}
}

// named are the names in the args literal of a call, if it has one of its own.
func named(call *ast.CallExpr) (names []string, ok bool) {
	for _, a := range call.Args {
		ast.Inspect(a, func(n ast.Node) bool {
			if l, is := n.(*ast.CompositeLit); is && isIdent(l.Type, "args") {
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

func isIdent(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}
