// Package record is Glovebox's truth: the state of every job and delivery, in Redis.
//
// The data model and every script is fixed by docs/adr/0001-record.md, those of tenants
// by docs/adr/0005-tenants.md. An asynq task only says that a record wants a worker;
// every transition of the record is one Lua script that compares the job's epoch, so
// that a worker which lost its job can change nothing. Start at [Store]; [Sweeper] is
// what repairs whatever fell between two steps.
package record
