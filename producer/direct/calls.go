package direct

import "context"

// CancelCall has whoever watches a call of that name, in any process of this Redis, cancel it. A call is what a client that can't close
// its connection names when it has changed its mind: see the api's mcp.go.
func (c *Client) CancelCall(ctx context.Context, name string) error {
	return c.records.CancelCall(ctx, name)
}

// WatchCall returns a channel that gets a value when the call of that name is cancelled, and a function that gives it back.
func (c *Client) WatchCall(name string) (cancelled <-chan struct{}, stop func()) {
	return c.done.Call(name)
}
