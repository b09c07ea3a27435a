// Package direct submits jobs and brings their results back over Redis and the bucket, for
// programs that run inside a deployment: the HTTP API is one of them. [Client] is
// [producer.Jobs] and what is beside it, with the same errors as the client of the API has.
//
// Such a program has Redis and the bucket as its role and no token, so the quota of requests
// and the audit log, which are the API's, are not for it. Everybody else uses package
// producer, which links none of this.
//
// Start at [Open].
package direct
