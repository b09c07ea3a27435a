// Package session is the worker's end of one sandbox's stream: it sends the agent a program
// with its inputs, passes what comes back on to a sink, and says what became of the program.
//
// Every frame is treated as hostile: lengths, order, totals and names are checked here again,
// whatever the agent checked (package agentwire). Every wait for the agent has a deadline. A
// session holds at most window bytes of what the program sends, however slow the sink is.
//
// It knows pipes, and nothing of Podman: a test plays the agent over a pipe of its own.
//
// Start at [Session.Serve].
package session
