package main

import "testing"

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "25.50": 25_500_000_000, "0.000000001": 1, "9000000": 9e15, "-1": -1e9} {
		if got, err := parseAmount("--budget", text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "1e3", "1/3", "0x10", "0.0000000001", "10000000000", "1_000", "1,5", "99999999999999999999999999999999"} {
		if got, err := parseAmount("--budget", text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
}
