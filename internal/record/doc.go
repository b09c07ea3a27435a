// Package record is Glovebox's truth: the state of every job and delivery, in Redis.
//
// docs/redis.md lists every key and script, docs/adr/0001-record.md says why they are so. An
// asynq task only says that a record wants a worker; every transition of the record is one
// Lua script (lua/) that compares the job's epoch, so that a worker which lost its job can
// change nothing. Start at [Store]; [Sweeper] repairs whatever fell between two steps.
package record
