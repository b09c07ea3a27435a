package runtimes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// Old is an image in Podman's store that an earlier version of a runtime has left, or a build that was made again.
type Old struct {
	// Name is one that it has, or had until it was built again, which is said there.
	Name string
	// Size is what its files have, bytes; images on the same base have most of it together.
	Size int64

	names   []string // or its id, if it has none
	created int64
}

// Old returns what [Set.Prune] removes: images under the names of these runtimes, and of what they are built on, that none of them
// has any more. What somebody else has named is never one of them.
func (s Set) Old(ctx context.Context, podman []string) ([]Old, error) {
	images, err := listImages(ctx, podman)
	if err != nil {
		return nil, err
	}
	ours, current := map[string]bool{}, map[string]bool{s.base: true}
	for _, r := range s.List() {
		current[r.Image()] = true
	}
	for name := range current {
		ours[repository(name)] = true
	}
	var old []Old
	seen := map[string]bool{}
	for _, i := range images {
		o := Old{Size: i.Size, names: i.Names, created: i.Created}
		had := i.Names
		if len(i.Names) == 0 {
			o.names, had = []string{i.ID}, i.History
		}
		kept := slices.ContainsFunc(i.Names, func(name string) bool { return current[name] })
		foreign := slices.ContainsFunc(had, func(name string) bool { return !ours[repository(name)] || !tagged.MatchString(name) })
		if len(had) == 0 || kept || foreign || seen[i.ID] {
			continue
		}
		seen[i.ID] = true
		if o.Name = had[0]; len(i.Names) == 0 {
			o.Name += " (an earlier build)"
		}
		old = append(old, o)
	}
	// What is built on another goes first.
	slices.SortStableFunc(old, func(a, b Old) int { return cmp.Compare(b.created, a.created) })
	return old, nil
}

// tagged is a name that Glovebox has given: its tag ends with the digest of what the image is built from.
var tagged = regexp.MustCompile(`-[0-9a-f]{12}$`)

// repository is an image's name without its tag.
func repository(name string) string { return name[:max(strings.LastIndexByte(name, ':'), 0)] }

// Prune removes these images, and root images of images that aren't there any more, with the command of infra/root-images.sh. One that a
// container has stays, and is said to out, as each that is removed. It returns how many were removed.
func (s Set) Prune(ctx context.Context, podman, rootImages []string, old []Old, out io.Writer) (removed int, err error) {
	for _, o := range old {
		switch _, err := run(commandOf(ctx, podman, append([]string{"rmi"}, o.names...)...)); {
		case err == nil || exitedWith(err, 1): // it is gone already, with one that was built on it
			removed++
			fmt.Fprintf(out, "removed  %s\n", o.Name)
		case exitedWith(err, 2):
			fmt.Fprintf(out, "in use   %s: run this again once its sandboxes have ended\n", o.Name)
		default:
			return removed, fmt.Errorf("remove %s: %w", o.Name, err)
		}
	}
	return removed, MakeRootImages(ctx, rootImages, nil, out)
}

// exitedWith reports whether podman-rmi(1) has ended so: with 1 for an image that isn't there, with 2 for one that a container has, or on
// which another is built.
func exitedWith(err error, status int) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == status
}
