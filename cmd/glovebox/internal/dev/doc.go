// Package dev runs all of Glovebox on one machine: Redis, an S3 server, the rootless
// Podman service, the api with its deliverer, and a worker, each a child process that
// comes back when it dies.
//
// Everything that lasts lies in one data directory ([Config].Dir): records, objects,
// logs, and credentials that are made once, at random. Where dev runs as root, Podman
// and the worker run as an ordinary user, who gets at none of it but through the
// servers.
//
// Start at [Run].
package dev
