package runtimes

import "regexp"

// OnHost returns the runtimes that a host has by itself, without images: those for which version says, given one without its image, which
// version there is. "" means that it isn't there. Nothing is preloaded in them, and they have no sessions, as both are images' own.
func (s Set) OnHost(version func(Runtime) string) Set {
	host := Set{fsys: s.fsys, names: map[string]int{}}
	for _, r := range s.runtimes {
		r.image, r.imageOf, r.Preload, r.Session, r.SessionCode = "", "", nil, nil, nil
		if r.Version = version(r); r.Version == "" {
			continue
		}
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			host.names[name] = len(host.runtimes)
		}
		host.runtimes = append(host.runtimes, r)
	}
	return host
}

var anyVersion = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)*`)

// AnyVersion returns the first version in what a VersionCommand printed, whichever it is; "" where there is none.
func AnyVersion(printed string) string { return anyVersion.FindString(printed) }
