// Package e2e proves the path of a job over all processes: the api with its
// deliverer, workers, Redis, S3 and Podman, each killed or restarted at each named
// step. It has tests and a benchmark only.
//
// They run the binaries in GLOVEBOX_TEST_BIN, built with the tag failpoint.
package e2e
