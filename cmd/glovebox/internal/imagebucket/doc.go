// Package imagebucket moves images between a Podman's store and the bucket, so that a fleet builds
// them once. It serves cmd/glovebox alone.
//
// In the bucket an image is what it is in an OCI archive: a manifest, a configuration and layers, each
// an object that is named by its SHA-256. Podman itself reads and writes its store: it is given a
// registry on loopback that is there for one image, streams to and from the bucket, and takes and
// gives nothing but the parts of that image, and to that Podman only. ADR 60 says why.
//
// Start at [Bucket.Push] and [Bucket.Pull].
package imagebucket
