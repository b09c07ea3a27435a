package script_test

import (
	"testing"
	"testing/fstest"

	"github.com/glovebox-run/glovebox/internal/script"
)

func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"lua/renew.lua": {Data: []byte("-- renew renews.\n-- @arg id   of it\n-- @arg due  ms\nreturn id .. due\n")}}
	renew := script.New(files, nil).Load("renew")
	for name, call := range map[string]func(){
		"one is missing":   func() { renew.Run(t.Context(), nil, "t", script.Args{"id": "x"}) },
		"one is unknown":   func() { renew.Run(t.Context(), nil, "t", script.Args{"id": "x", "due": 1, "now": 1}) },
		"one is misspelt":  func() { renew.Run(t.Context(), nil, "t", script.Args{"id": "x", "dew": 1}) },
		"there is no list": func() { renew.Run(t.Context(), nil, "t", script.Args{"id": "x", "due": 1}, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if said := recover(); said == nil {
					t.Error("it is not noticed")
				} else if _, ours := said.(string); !ours {
					t.Errorf("got %v, want what the script wants", said)
				}
			}()
			call()
		})
	}
}
