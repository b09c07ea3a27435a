package job

import (
	"fmt"
	"slices"
	"strings"
)

// Isolation is what keeps a program from its worker's host.
type Isolation string

// The isolations. The zero value means [GVisor].
const (
	// GVisor is a sandbox with a kernel of its own: for code of anybody.
	GVisor Isolation = "gvisor"
	// Process is the host's kernel with namespaces, limits and filters: for code that is trusted.
	Process Isolation = "process"
)

// Isolations are all there are, the strongest first.
func Isolations() []Isolation { return []Isolation{GVisor, Process} }

// ParseIsolation reads one; "" is GVisor.
func ParseIsolation(s string) (Isolation, error) {
	i := Isolation(s).Or()
	if !slices.Contains(Isolations(), i) {
		return "", fmt.Errorf("%.40q is no isolation: want %s", s, JoinIsolations(Isolations()))
	}
	return i, nil
}

// Or returns GVisor for the zero value.
func (i Isolation) Or() Isolation {
	if i == "" {
		return GVisor
	}
	return i
}

// Suffices reports whether a sandbox of this isolation may run a program whose submitter accepts least at the least. What neither is
// known suffices for nothing.
func (i Isolation) Suffices(least Isolation) bool {
	have, want := slices.Index(Isolations(), i.Or()), slices.Index(Isolations(), least.Or())
	return have >= 0 && want >= 0 && have <= want
}

// JoinIsolations returns them as a sentence has them.
func JoinIsolations(list []Isolation) string {
	words := make([]string, len(list))
	for n, i := range list {
		words[n] = string(i)
	}
	return strings.Join(words, ", ")
}
