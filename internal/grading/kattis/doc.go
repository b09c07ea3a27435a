// Package kattis reads problem packages in the format that Kattis, DOMjudge, PC² and their tools share:
// its versions legacy, legacy-icpc, 2023-07-draft and 2025-09. The smallest package is a folder with
// data/secret/1.in and data/secret/1.ans; problem.yaml may be missing.
//
// [Open] reads a folder, [Read] any file system, into a [Problem]; [Problem.Spec] makes a job of that
// and a submission. What this build can't judge as the package asks for (submit-answer problems, custom
// graders, files beside a test's input) is an [*Error],
// never a verdict that might be wrong. Packages come from strangers: links that lead out of the folder,
// and more or larger files than are bounded here, are errors, too.
//
// The format: https://www.kattis.com/problem-package-format/
package kattis
