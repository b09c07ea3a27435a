package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// milliseconds as a person would say it: 340 ms, 10 s, 2m30s.
func milliseconds(ms int64) string {
	switch d := time.Duration(ms) * time.Millisecond; {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case d < time.Minute:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	default:
		return d.Round(time.Second).String()
	}
}

// bytesOf as a person would say it: 12 B, 3.4 KiB, 300 MiB.
func bytesOf(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1023.95 && unit < len(units)-1 {
		f /= 1024
		unit++
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + " " + units[unit:unit+1] + "iB"
}

// plain makes a stranger's text safe for a terminal: what could move the cursor, or
// make a line read as another, is shown as its escape.
func plain(s string) string {
	return escaped(s, unprintable)
}

// escaped is s with these characters as their escapes.
func escaped(s string, these func(rune) bool) string {
	if !strings.ContainsFunc(s, these) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if these(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
