package secrets_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/secrets"
)

// pieces masks a stream that comes in pieces of n bytes.
func pieces(m *secrets.Mask, s string, n int) string {
	m = m.Stream()
	var out []byte
	for rest := []byte(s); len(rest) > 0; {
		k := min(n, len(rest))
		out = append(out, m.Write(rest[:k])...)
		rest = rest[k:]
	}
	return string(append(out, m.End()...))
}

func newMask(values ...string) *secrets.Mask {
	var all [][]byte
	for _, v := range values {
		all = append(all, []byte(v))
	}
	return secrets.NewMask(all)
}

func TestMask(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN KEY-----\r\nabcdefghij\nklmnopqrst\nend\n"
	for _, c := range []struct {
		name     string
		values   []string
		in, want string
	}{
		{"nothing", []string{"password1"}, "", ""},
		{"another text", []string{"password1"}, "passwordpasswor", "passwordpasswor"},
		{"a secret", []string{"password1"}, "a password1 b", "a *** b"},
		{"alone", []string{"password1"}, "password1", "***"},
		{"twice", []string{"password1"}, "password1 password1", "*** ***"},
		{"side by side", []string{"password1"}, "password1password1", "***"},
		{"after a false start", []string{"aaaaaaab"}, "aaaaaaaaaaaab", "aaaaa***"},
		{"over each other", []string{"abcdefgh", "efghijkl"}, "abcdefghijklm", "***m"},
		{"within each other", []string{"abcdefgh", "__abcdefgh__"}, "__abcdefgh__ abcdefgh_ __abcdefgh", "*** ***_ ***"},
		{"beside each other", []string{"abcdefgh", "ABCDEFGH"}, "abcdefghABCDEFGHx", "***x"},
		{"itself again", []string{"abababab"}, "ababababab", "***"},
		{"cut off", []string{"0123456789abcdef"}, "x 0123456789", "x ***"},
		{"cut off early", []string{"0123456789abcdef"}, "x 0123", "x 0123"},
		{"bytes", []string{"\xff\x00\xfe\x01\xfd\x02\xfc\x03"}, "a\xff\x00\xfe\x01\xfd\x02\xfc\x03\xff", "a***\xff"},
		{"its lines", []string{key}, "1: abcdefghij\n2: klmnopqrst\n3: end\n" + key, "1: ***\n2: ***\n3: end\n***"},
		{"base64", []string{"password?>~"}, base64.StdEncoding.EncodeToString([]byte("password?>~")) + " " + base64.URLEncoding.EncodeToString([]byte("password?>~")), "***= ***="},
		{"short", []string{"short"}, "short", "short"},
	} {
		for _, n := range []int{1, 2, 3, 7, 1000} {
			if got := pieces(newMask(c.values...), c.in, n); got != c.want {
				t.Errorf("%s, in pieces of %d: got %q, want %q", c.name, n, got, c.want)
			}
		}
		if got := newMask(c.values...).Text(c.in); got != c.want {
			t.Errorf("%s as a text: got %q, want %q", c.name, got, c.want)
		}
	}
	var none *secrets.Mask
	if got := string(none.Write([]byte("x"))) + string(none.End()) + none.Text("y"); got != "xy" || none.Stream() != nil {
		t.Errorf("no mask: got %q", got)
	}
}

// TestMaskHoldsLittle: what begins no secret is there at once.
func TestMaskHoldsLittle(t *testing.T) {
	t.Parallel()
	m := newMask("password1")
	if got := string(m.Write([]byte("line\n"))); got != "line\n" {
		t.Errorf("got %q at once", got)
	}
	if got := string(m.Write([]byte("a pass"))); got != "a " {
		t.Errorf("got %q at once", got)
	}
	if got := string(m.Write([]byte("age"))); got != "passage" {
		t.Errorf("got %q at once", got)
	}
}

// TestMaskIsLinear: no stream makes it slow, however much it looks like the secrets.
func TestMaskIsLinear(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 32<<10)
	m := newMask(long+"b", long[:16<<10]+"c", long[:100]+"d")
	began := time.Now()
	in := strings.Repeat("a", 4<<20)
	got := pieces(m, in, 32<<10)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("4 MiB took %s", took)
	}
	// The end looks like the first one cut off.
	if want := len(in) - 32<<10 + 3; len(got) != want {
		t.Errorf("got %d bytes, want %d", len(got), want)
	}
}

// naive masks as Mask does, and takes its time.
func naive(values []string, s string) string {
	var forms []string
	for _, v := range values {
		forms = append(forms, v, strings.TrimSpace(v), base64.RawStdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)))
		for line := range strings.Lines(v) {
			forms = append(forms, strings.TrimSpace(line))
		}
	}
	forms = slices.DeleteFunc(forms, func(f string) bool { return len(f) < secrets.MinBytes })
	hidden := make([]bool, len(s))
	for i := range len(s) {
		longest := 0
		for _, f := range forms {
			n := 0
			switch {
			case strings.HasPrefix(s[i:], f):
				n = len(f)
			case strings.HasPrefix(f, s[i:]) && len(s)-i >= secrets.MinBytes: // cut off
				n = len(s) - i
			}
			longest = max(longest, n)
		}
		for k := range longest {
			hidden[i+k] = true
		}
	}
	var out strings.Builder
	for i := range len(s) {
		switch {
		case !hidden[i]:
			out.WriteByte(s[i])
		case i == 0 || !hidden[i-1]:
			out.WriteString("***")
		}
	}
	return out.String()
}

func FuzzMask(f *testing.F) {
	f.Add("password1", "abcdefgh", "a password1 abcdefgh", 3)
	f.Add("aaaaaaaa", "aaaaaaaab", "aaaaaaaaaaaaaaab", 1)
	f.Add("line one\nline two", "two\nline", "line two\nline one", 5)
	f.Fuzz(func(t *testing.T, one, two, in string, n int) {
		if n < 1 {
			return
		}
		m := newMask(one, two)
		for _, s := range []string{in, in + one + in + two, one + two[:len(two)/2], strings.Repeat(one[:len(one)/2], 3) + one} {
			got := pieces(m, s, n)
			if want := naive([]string{one, two}, s); got != want {
				t.Errorf("secrets %q, in pieces of %d, %q: got %q, want %q", []string{one, two}, n, s, got, want)
			}
		}
	})
}

func BenchmarkMask(b *testing.B) {
	m := newMask("ghp_0123456789abcdefghijklmnopqrstuvwxyz", "postgres://user:correct-horse-battery-staple@db/prod")
	for name, in := range map[string][]byte{
		"text": bytes.Repeat([]byte("epoch 12: loss 0.3312, accuracy 0.8873\n"), 1000),
		"like": bytes.Repeat([]byte("ghp_01234567"), 3000),
	} {
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			s := m.Stream()
			for b.Loop() {
				s.Write(in)
			}
		})
	}
}

// TestMaskShown: a secret is masked, too, as JSON and HTML have it, in which sessions show values.
func TestMaskShown(t *testing.T) {
	t.Parallel()
	m := secrets.NewMask([][]byte{[]byte(`a"b\c<d>'&e`)})
	for _, shown := range []string{`a"b\c<d>'&e`, `a\"b\\c<d>'&e`, `a"b\c&lt;d&gt;'&amp;e`, `a&quot;b\c&lt;d&gt;&#x27;&amp;e`} {
		if got := m.Text("x " + shown + " y"); got != "x *** y" {
			t.Errorf("%s: got %s", shown, got)
		}
	}
}
