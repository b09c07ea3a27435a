// Package config turns the environment of Glovebox's processes into values.
//
// It reads nothing by itself: a command hands it os.Getenv, and a test a map. A
// [Reader] collects every fault before it answers, so that one start shows all of
// them. A secret can come from a file instead: where NAME is a secret, NAME_FILE
// names a file that holds it.
//
// [ReadWorker] and [ReadAPI] are the contracts of the two servers, [FindClient] is
// where the command line looks for its settings, [ReadFile] the format of env files.
package config
