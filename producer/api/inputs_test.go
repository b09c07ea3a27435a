package api_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestInputsEmbedNothing: Huma reads no parameter of a struct that is embedded and not exported, and says nothing of it.
func TestInputsEmbedNothing(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	inputs := 0
	for _, name := range files {
		f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !strings.HasSuffix(spec.Name.Name, "Input") {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				inputs++
				for _, field := range s.Fields.List {
					if len(field.Names) == 0 {
						t.Errorf("%s: %s embeds a struct, whose parameters nobody reads", name, spec.Name.Name)
					}
				}
			}
			return true
		})
	}
	if inputs < 20 {
		t.Errorf("only %d inputs were looked at", inputs)
	}
}
