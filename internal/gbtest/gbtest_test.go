package gbtest_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// No two tests are given one address. Of 600 random ports among 22,000 some two are the same nearly always.
func TestAddr(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	for range 600 {
		addr := gbtest.Addr(t)
		if given[addr] {
			t.Fatalf("%s is given twice", addr)
		}
		given[addr] = true
	}
}
