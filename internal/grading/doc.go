// Package grading judges a submission: [Checker] compares one output with one answer, [Judgement]
// adds up the verdicts of all tests. It runs nothing and reads nothing but what it is handed, so that
// the worker and the command line come to the same.
//
// Outputs come from strangers. A Checker streams both sides where it can, and bounds what it has to
// hold ([MaxDocument], [MaxJSON], [MaxMatch]); no output makes it fail or panic.
package grading
