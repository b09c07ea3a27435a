// Package deptest holds the test of what Glovebox's packages and commands link; it has
// no code of its own.
package deptest
