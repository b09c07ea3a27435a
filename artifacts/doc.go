// Package artifacts keeps what jobs make in an S3-compatible bucket: files and
// charts, long outputs, results.
//
// Bytes stream from a reader to the bucket in parts and never touch a disk. What an
// upload holds in memory doesn't grow with the size of the file: a few parts for one
// upload, [Config].MemoryBytes for all uploads of a [Store] together.
//
// The bucket is private. A browser reaches an object through a URL of the API that
// carries a capability token ([Tokens]) and redirects to a presigned URL of a few
// minutes ([Store.Presign]). Whatever a browser could run is served as an attachment.
//
// Everything here treats a job's bytes and names as hostile: sizes are bounded by the
// caller ([Options].Limit), names are encoded before they become keys ([Keys]), media
// types come from content, not from what the job claims ([MediaType]).
//
// Start at [Open], then [Store.Upload]. What a lost attempt left behind goes with
// [Store.Sweep].
package artifacts
