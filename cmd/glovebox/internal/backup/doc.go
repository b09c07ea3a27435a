// Package backup writes all that Glovebox keeps into one file, and puts it back: the records in
// Redis, as they were at one moment, and the objects in the bucket that they name.
//
// The file is a tar archive: head.json, redis.rdb, objects/…, and end.json, which has the SHA-256 of all
// bytes before it. [Save] writes one while the service runs. [Verify] reads one to its end; [Restore]
// does so before it changes anything. docs/adr/0044-backup.md says why it is done so.
package backup
