// Package facade is what the façades share: each answers the clients of another server of its
// kind in that server's own words, and does their work as jobs of Glovebox.
//
// A façade translates, and nothing else. It has no way of its own to Redis, the bucket or a worker:
// the api admits a request as it does its own (token, scope, quota, audit log, memory for bodies),
// and hands the façade a [Call], with the tenant's client in it. Fields that a façade doesn't know are
// ignored, as the servers do whose place it takes.
//
// Start at [Facade].
package facade
