// Package attest signs what a job came to, and verifies it without asking anybody.
//
// A worker that has a key makes a [Signer] and puts [Signer.Attest]'s envelope into
// each result. Whoever holds a result and the keys that they trust calls [ParseResult]
// and [Verify]; the package imports no more than job and the standard library.
//
// What is signed says which image ran which input under which limits, and what came of
// it, down to the hash of each output and artifact. It does not say that the input was
// good, nor that the worker was honest: it proves which worker's key vouches for it.
// URLs and metadata are not attested, for neither comes from the run, nor is an artifact's chart, which its file has.
//
// docs/adr/0002-attestation.md fixes every byte that is hashed or signed.
package attest
