// Package jobstream splits what a batch is sent as into its jobs, one at a time, so
// that nobody ever holds all of it. It does not look into a job: that is the reader's.
//
// There are two forms. JSON Lines has a job a line, and may say of the batch as a whole
// in its first line:
//
//	{"batch": {"metadata": {"course": "cs1"}}}
//	{"runtime": "python", "source": "print(1)"}
//
// JSON is one object, whose last field is the list of jobs:
//
//	{"metadata": {"course": "cs1"}, "jobs": [{"runtime": "python", "source": "print(1)"}]}
//
// What comes from a client is hostile: the size of a job and of what stands before the
// jobs is bounded, how many jobs there are is the reader's to count.
package jobstream
