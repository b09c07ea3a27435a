package e2b

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

func TestDedented(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"x = 1\nif x:\n    y":      "x = 1\nif x:\n    y",
		"\n    if x:\n        y\n": "\nif x:\n    y\n",
		"\tx\n\ty":                 "x\ny",
		"    x\ny":                 "x\ny",
		"  \n":                     "  \n",
		"":                         "",
	} {
		if got := dedented(code); got != want {
			t.Errorf("%q: got %q, want %q", code, got, want)
		}
	}
}

// TestDedentedMemory: code of many short lines takes its own size once more, and not a list of its lines.
func TestDedentedMemory(t *testing.T) {
	code := " x" + strings.Repeat("\n", 16<<20)
	if spent := gbtest.Allocated(func() { _ = dedented(code) }); spent > 24<<20 {
		t.Errorf("code of 16 MiB took %d MiB more", spent>>20)
	}
}

// TestCodeMemory: what becomes code in base64 takes a few times its size, whatever it holds, and nothing where it is longer than the
// session's code may be.
func TestCodeMemory(t *testing.T) {
	text := strings.Repeat("<", 4<<20-64)
	q, err := parseRequest([]byte(`{"process":{"cmd":"x","args":["` + text + `"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for sourceKB, most := range map[int64]uint64{16 << 10: 64 << 20, 4 << 10: 40 << 20} {
		x := job.Session{Runtime: "python", Limits: job.Limits{SourceKB: sourceKB}}
		refused := sourceKB < 16<<10
		spent := gbtest.Allocated(func() {
			if _, _, err := prepareProcess(x, q); (err != nil) != refused {
				t.Errorf("a program's arguments, source_kb %d: got %v", sourceKB, err)
			}
		})
		if spent > most {
			t.Errorf("a program's arguments of 4 MiB, source_kb %d, took %d MiB more", sourceKB, spent>>20)
		}
		spent = gbtest.Allocated(func() {
			env := map[string]string{"A": text}
			err := checkEnv(env, "python", sourceKB<<10)
			if (err != nil) != refused {
				t.Errorf("variables, source_kb %d: got %v", sourceKB, err)
			}
			if err == nil {
				envCode("python", env)
			}
		})
		if spent > most || refused && spent > 1<<20 {
			t.Errorf("variables of 4 MiB, source_kb %d, took %d MiB more", sourceKB, spent>>20)
		}
	}
	if err := checkEnv(map[string]string{"A": strings.Repeat("'", 300)}, "bash", 1<<10); err == nil {
		t.Error("quotes that bash has four bytes for each of are taken")
	}
}
