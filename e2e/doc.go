// Package e2e proves the path of a job over all processes: the api with its
// deliverer, workers, Redis, S3 and Podman, each killed or restarted at each named
// step, and measures it beside what else could run the same programs. It has tests only.
//
// They run the binaries in GLOVEBOX_TEST_BIN, built with the tag failpoint.
package e2e
