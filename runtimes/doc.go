// Package runtimes knows the languages that jobs can be written in, and builds their
// images.
//
// A runtime is a folder: runtime.yaml says how to run a file, Containerfile what the
// image holds, testdata what it must be able to do. Nothing else in Glovebox names
// a language, so adding a folder adds a runtime; README.md has the steps.
//
// Images come from no registry. [Set.Build] bootstraps a base from Debian's signed
// archive and builds each runtime's image on it with rootless Podman. An image's name
// holds a digest of all that it is made of, so that a changed folder is seen as not
// built.
//
// Start at [Embedded], the runtimes that this build of Glovebox brings, or [LoadDir].
package runtimes
