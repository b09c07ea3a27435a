package gbtest

import (
	"os"
	"strconv"
	"testing"
)

// Number is the whole number above 0 in an environment variable, or otherwise where that is not set.
func Number(tb testing.TB, variable string, otherwise int) int {
	tb.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		tb.Fatalf("%s is %q: want a whole number above 0", variable, text)
	}
	return n
}
