// Package convert makes problem packages of other judges' problems: [Import] reads a folder or an archive of DMOJ
// (init.yml) or Polygon (problem.xml), and writes a package in the Kattis problem package format 2025-09, which
// [kattis.Open] reads and other judges do, too.
//
// A package that grades differently than its original is worse than none. So what is not understood, or can't be
// expressed, is a [*kattis.Error] that names the file and the field, and says what to do; only what no verdict depends
// on is passed over, with a warning. Checkers are taken along as programs where the default one is not exactly the same.
//
// Problems come from strangers: paths in them stay inside, links lead nowhere else, and what is read is bounded, an
// archive's content by what comes out of it and not by what it says. Nothing of a problem is run.
package convert
