// Package producer submits jobs to Glovebox and brings their results back. It links nothing
// but packages job and attest and the standard library.
//
// [Client] talks to the API with a token. What it does is in interfaces, small enough to
// fake: [Jobs] submits a job, waits for it and cancels it; [Batches] does so with thousands;
// [Watcher], [Files], [Lister], [Uploader], [Purger], [Interactive] and [Catalog] are beside it. [Secrets]
// and [Webhooks] are a tenant's settings, [Tenants] is the operator's.
//
// Programs that run inside a deployment can use package direct instead, which talks to Redis
// and the bucket. Its Client does the same, with the same errors.
//
// # Errors
//
// What a caller can put right says so in package job. [job.Invalid] lists every field of a
// spec that is wrong. A [*job.Error] has a code: errors.Is(err, job.ErrNotFound) compares
// codes, and [job.CodeOf] returns the code of any of these, for a switch. A [*job.GoneError]
// names the job that an idempotency key began and that is no longer kept, a [*BatchError] the
// batch that was not received to its end, a [*job.WaitOverError] the job that [Client.Execute] has
// waited for in vain.
//
// A program that fails is no error: its job has ended, and its Result says how.
//
// [Temporary] says which errors may be gone the next time: faults on the way, and what the API
// calls unavailable, timeout and rate_limited. A Submit that failed on the way may have been
// accepted: with an idempotency key, trying it again makes no second job.
//
// # What is tried again
//
// Submit and Run with an idempotency key, Wait, WaitBatch and Watch bear with an API that is
// away for up to 30 seconds; [UploadFile] gives the bucket three tries. Everything else is
// asked for once, and ends with its context.
//
// Start at [New].
package producer
