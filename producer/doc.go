// Package producer submits jobs to Glovebox and brings their results back.
//
// [Jobs] is what a producer can do. Two types do it: [HTTP] talks to the API with a token;
// the Client of package direct talks to Redis and the bucket itself, for programs that run
// inside the deployment. Programs written against [Jobs] don't notice the difference, errors
// included.
//
// # Errors
//
// What a caller can put right has a type to decide by: [job.Invalid] lists every
// field of a spec that is wrong, [job.ErrNotFound] and [job.ErrEnded] speak of the job, and
// a [*job.Error] has a code ([CodeNoRuntimes], [CodeUnauthorized], …). Everything
// else is a fault on the way and may be tried again, with one exception: a Submit
// that failed on the way may have been accepted.
//
// Start at [NewHTTP].
package producer
