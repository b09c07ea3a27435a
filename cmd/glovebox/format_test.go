package main

import "testing"

func TestMilliseconds(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{0: "0 ms", 999: "999 ms", 1000: "1 s", 1340: "1.3 s", 59_960: "60 s", 150_000: "2m30s"} {
		if got := milliseconds(ms); got != want {
			t.Errorf("%d: got %q, want %q", ms, got, want)
		}
	}
}

func TestBytesOf(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1 MiB", 300 << 20: "300 MiB", 1 << 40: "1 TiB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"é .png": "é .png", "a\x1b[2J": `a\u001b[2J`, "a\u202egnp": `a\u202egnp`, "a\nb": `a\u000ab`, "\u0085": `\u0085`} {
		if got := plain(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

func TestShowControls(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"é\tx\n": "é\tx\n", "\x1b]0;t\x07": "^[]0;t^G", "a\rb": "a^Mb", "\x7f": "^?", "\u009b2J": "^[[2J"} {
		if got := string(showControls([]byte(s))); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

// TestInOrder: what would have text read in another order is written out, and nothing else is.
func TestInOrder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\u202eb\u2066c\u2069": `a\u202eb\u2066c\u2069`, "é 日本 العربية\n\t": "é 日本 العربية\n\t",
	} {
		if got := inOrder(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
