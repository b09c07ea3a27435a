// Package simulation holds the simulation of a fleet: the real records, queues and workers on a real
// Redis, with sandboxes that sleep. It has no code of its own. Start at TestFleet.
package simulation
