package main

import "testing"

// TestMemoryHolderThatIsNone: what an image's code names is no keeper unless it is a process of its group.
func TestMemoryHolderThatIsNone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "x", "0", "1", "-5", "2 3", "99999999999999999999", "4194305"} {
		if k, err := newMemoryHolder(name, group{name: "none"}); err == nil {
			t.Errorf("%q: got %+v, want an error", name, k)
		}
	}
}
