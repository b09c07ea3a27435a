// Package testcache keeps what graded jobs read, inputs and answers, on the worker's disk, so that the
// bucket is read once for all submissions of a problem.
//
// Content is checked by its SHA-256 as it comes from the bucket, and each time before it is handed out: a
// file that is not what it was is fetched once more. All of it lies in one directory of this process alone,
// which goes with it; what a killed process left is removed by the next. Names of files are numbers.
//
// What is kept is known by its key in the bucket, and a key begins with its tenant. So a tenant is never
// handed what another has uploaded, nor does it hear from how long a job takes that another has it: what it
// didn't upload itself is always looked for in the bucket. Two tenants with the same problem have it here
// twice. The bucket is asked every [recheck] whether an object is still there, as it may have been deleted.
//
// The cache never fails a job by itself: where it can't help, [ErrUncached], the caller reads the bucket.
//
// Start at [Open], then [Cache.Open].
package testcache
