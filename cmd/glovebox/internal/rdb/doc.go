// Package rdb takes a snapshot of a Redis that serves, and reads it key by key.
//
// A snapshot is what a replica is sent: all keys as they are at one moment, which no series of
// commands can tell of a Redis that is written to. [Fetch] asks for one. [Reader] reads it, each
// value as RESTORE takes it, without knowing what is in it. It trusts nothing that it reads: what it
// holds is never more than there was to read, and it stops at the first thing that it doesn't know.
package rdb
