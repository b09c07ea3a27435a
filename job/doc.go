// Package job is Glovebox's wire contract: what a producer submits ([Spec]), what it gets
// back ([Result]), the ids of both and the errors of either ([Error], [Invalid]). Everything
// else imports it; it imports the standard library only, so that a client costs nothing but
// these types.
//
// JSON is snake_case and grows by addition only. Durations end in _ms, sizes are
// in bytes unless the name says _kb (KiB) or _mb (MiB), times are RFC 3339 UTC.
//
// Start at [Spec], then [Spec.Check], which refuses what can't be run and says
// which field is wrong and what is allowed.
package job
