// Package replay executes again what a session has executed, in a new session, and says of each step if it came to the same. So a session goes on
// after its loss, is forked, or is checked. It compares what came out, not what is in the interpreters' memory; a
// step that reads a clock or draws random numbers differs, and what goes on from it may, too.
//
// Start with [Run].
package replay
