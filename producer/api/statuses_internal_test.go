package api

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every code that job declares for a request has a status here, and no other has.
func TestStatuses(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../job/code.go")
	if err != nil {
		t.Fatal(err)
	}
	codes, _, _ := strings.Cut(string(b), "\n)\n") // what follows is of results
	declared := regexp.MustCompile(`(?m)^\tCode\w+ += "(\w+)"`).FindAllStringSubmatch(codes, -1)
	for _, code := range declared {
		if statuses[code[1]] < 400 {
			t.Errorf("%s: got status %d", code[1], statuses[code[1]])
		}
	}
	if len(declared) != len(statuses) {
		t.Errorf("there are %d statuses of %d codes", len(statuses), len(declared))
	}
}
