// Package api is Glovebox's HTTP API: thin handlers over direct.Client.
//
// Every job route takes a bearer token, which stands for a tenant; another tenant's
// job is answered for as if it did not exist. Files of a job can also be read with
// the capability in the URLs of its result. Errors are RFC 9457 problems that name
// each wrong field, what it held and what is allowed; nothing a stranger sent is
// echoed whole. The OpenAPI document is made from the Go types.
//
// A cancel (DELETE) is idempotent: 200 with the result for a job that is canceled
// by now, 202 with the record for a running one that was asked to stop, 409 for
// one that ended otherwise. With purge=true it deletes a job that has ended: 204, and 409
// for one that has not.
//
// Code that is executed (POST /v1/code-sandbox/execute) is a job in other words: names in
// camelCase, and 400 for all that is wrong with a request.
//
// Start at [New], then [API.Serve].
package api
