// Package webhook signs, sends, guards and verifies webhooks per Standard Webhooks.
//
// A receiver needs [ParseVerifiers] and [Handler], or [Verify] in a server of its own. It
// imports this package without Podman, AWS or Redis. It verifies with the secret that it
// shares with Glovebox (signatures v1), or with a public key (v1a), which can't sign.
//
// A sender needs [Sign] and [Sender]. A Sender makes one attempt and says what came of
// it: only 2xx is success, no redirect is followed, and errors are safe to show to
// whoever gave the URL. When to try again is [Schedule]'s.
//
// URLs come from strangers, so every connection passes a [Guard], which looks at the
// address that is really dialled. A host name that resolves to something else at the
// next attempt gains nothing.
package webhook
