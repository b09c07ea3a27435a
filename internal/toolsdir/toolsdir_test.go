package toolsdir

import "testing"

func TestOf(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"/usr/bin/glovebox":           Packaged,
		"/usr/local/bin/glovebox":     Local,
		"/root/glovebox/bin/glovebox": Local,
		"/usr/bin/x/glovebox":         Local,
	} {
		if got := of(program); got != want {
			t.Errorf("%s: got %s, want %s", program, got, want)
		}
	}
}
