package judge0

import (
	"os"
	"strings"
	"testing"
)

// TestRoutesAreDocumented: the page for those who move lists each route as it is registered.
func TestRoutesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/moving.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range New().Routes {
		if !strings.Contains(string(page), "`"+route.Pattern+"`") {
			t.Errorf("docs/moving.md has no %s", route.Pattern)
		}
	}
}
