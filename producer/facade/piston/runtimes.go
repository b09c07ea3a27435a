package piston

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/glovebox-run/glovebox/producer/facade"
)

// runtime is a language that a worker has, as Piston lists it.
type runtime struct {
	Language string   `json:"language"`
	Version  string   `json:"version"`
	Aliases  []string `json:"aliases"`
	Runtime  string   `json:"runtime,omitempty"`

	language language
	compiled bool // the runtime of ours has a compile step
}

// compiles reports whether there is a compile step.
func (r runtime) compiles() bool {
	if r.language.commands != nil {
		return r.language.commands.Compile != ""
	}
	return r.compiled
}

// runtimes are those that the tenant's programs can have, by name.
func runtimes(ctx context.Context, c *facade.Call) ([]runtime, error) {
	published, err := c.Client.Runtimes(ctx)
	if err != nil {
		return nil, err
	}
	list := []runtime{} // not null
	for _, p := range published {
		known := false
		for _, l := range languages {
			if l.runtime == p.Name {
				known = true
				list = append(list, runtime{l.name, threeNumbers(p.Version), aliases(l.aliases), l.pkg, l, p.Compiles})
			}
		}
		if !known {
			list = append(list, runtime{p.Name, threeNumbers(p.Version), aliases(p.Aliases), "", language{name: p.Name, runtime: p.Name}, p.Compiles})
		}
	}
	slices.SortFunc(list, func(a, b runtime) int { return cmp.Compare(a.Language, b.Language) })
	return list, nil
}

// aliases is a list that is [] and not null in JSON: clients go through it.
func aliases(list []string) []string { return append([]string{}, list...) }

// threeNumbers makes a semantic version of one of Debian's, of which ours name as many numbers as matter: 3.13 is
// 3.13.0, and 2024.09 is 2024.9.0.
func threeNumbers(version string) string {
	numbers := strings.SplitN(version+".0.0", ".", 4)[:3]
	for i, n := range numbers {
		whole, _ := strconv.ParseUint(strings.TrimFunc(n, func(r rune) bool { return r < '0' || r > '9' }), 10, 31) // what is no number is 0
		numbers[i] = strconv.FormatUint(whole, 10)
	}
	return strings.Join(numbers, ".")
}

// maxRange bounds a range of versions, in bytes: far longer than any that means something.
const maxRange = 128

// find returns the newest runtime of that name or alias with a version in the range, of npm's kind.
func find(list []runtime, name, versions string) (runtime, bool) {
	var found runtime
	if len(versions) > maxRange {
		return found, false
	}
	within, err := semver.NewConstraint(versions)
	if err != nil {
		return found, false
	}
	var newest *semver.Version
	for _, r := range list {
		version, err := semver.NewVersion(r.Version)
		if err != nil || r.Language != name && !slices.Contains(r.Aliases, name) || !within.Check(version) {
			continue
		}
		if newest == nil || version.GreaterThan(newest) {
			found, newest = r, version
		}
	}
	return found, newest != nil
}

func listRuntimes(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	list, err := runtimes(r.Context(), c)
	if err != nil {
		refuse(w, r, c.Host.Problem(r.Context(), err))
		return
	}
	facade.Write(w, http.StatusOK, list)
}

// listPackages lists the same as packages: one each, unless one has several languages.
func listPackages(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	list, err := runtimes(r.Context(), c)
	if err != nil {
		refuse(w, r, c.Host.Problem(r.Context(), err))
		return
	}
	type pkg struct {
		Language  string `json:"language"`
		Version   string `json:"language_version"`
		Installed bool   `json:"installed"`
	}
	packages := []pkg{}
	for _, r := range list {
		p := pkg{cmp.Or(r.Runtime, r.Language), r.Version, true}
		if !slices.Contains(packages, p) {
			packages = append(packages, p)
		}
	}
	facade.Write(w, http.StatusOK, packages)
}
