// Package pipelines decides what follows in a run of a [job.Pipeline]: it checks a definition, says what
// there is to do after any set of ends, decides about a step, and makes the specs of its jobs. It reads and stores nothing: a
// caller brings what is known, and carries out what is said. Start at [Parse] and [Next].
package pipelines
