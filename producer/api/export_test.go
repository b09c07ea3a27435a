package api

// Patterns lists the routes as they were registered, those included that the OpenAPI
// document doesn't know.
func (a *API) Patterns() []string { return a.patterns }
