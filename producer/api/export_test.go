package api

import "time"

// Patterns lists the routes as they were registered, those included that the OpenAPI
// document doesn't know.
func (a *API) Patterns() []string { return a.patterns }

// SetBodyTime changes how long the sender of a batch may take.
func (a *API) SetBodyTime(d time.Duration) { a.bodyTime = d }
