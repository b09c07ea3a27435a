// Package supervise keeps child processes running: it starts one, waits until it is
// ready, starts it again when it dies, and ends it when asked.
//
// A child dies with its supervisor, also when that is killed with SIGKILL, and never
// sees the terminal's Ctrl-C: it is ended in the order that its owner chooses.
//
// Start at [Start].
package supervise
