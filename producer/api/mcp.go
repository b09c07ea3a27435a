package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-run/glovebox/producer/tools"
)

const (
	mcpSessionHeader = "Mcp-Session-Id"
	// maxMCPSession bounds what a client may call its session, in bytes: ours have 26.
	maxMCPSession = 64
)

// mcp answers one message of the Model Context Protocol. Nothing is kept from one to the next: a client
// of a revision before 2026-07-28 cancels a call by a message, which may come to another api than the
// call did, so all are told. Newer ones close the connection.
func (a *API) mcp(w http.ResponseWriter, r *http.Request) {
	c, err := a.admit(w, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	body, done, err := a.toolText(w, r, c)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	defer done()
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) { // as only revision 2025-03-26 has it
		a.writeError(w, r, bodyProblem("is a list of messages", "one message"))
		return
	}
	message := mcpMessageOf(body)
	if message.Method == "tools/call" { // a message that cancels one needs no place beside it
		release, err := a.toolCalls.acquire(c.tenant)
		if err != nil {
			a.writeError(w, r, err)
			return
		}
		defer release()
	}
	var languages []string
	if message.Method == "tools/list" { // nothing else tells them
		if languages, err = a.languages(r.Context(), c); err != nil {
			a.writeError(w, r, err)
			return
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	session := r.Header.Get(mcpSessionHeader)
	known := session != "" && len(session) <= maxMCPSession
	switch {
	case message.Method == "initialize":
		w.Header().Set(mcpSessionHeader, rand.Text())
	case message.Method == "notifications/cancelled" && known && len(message.RequestID) > 0:
		if err := a.client.CancelCall(ctx, c.callName(session, message.RequestID)); err != nil {
			a.writeError(w, r, err)
			return
		}
	case message.Method == "tools/call" && known && len(message.ID) > 0:
		defer a.watchCall(ctx, c.callName(session, message.ID), cancel)()
	}
	server := tools.Server(tools.ServerConfig{
		Caller: a.toolCaller(ctx, c), Languages: languages, Version: a.version, May: c.may, Until: ctx,
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true,
		// What comes over loopback asks for this machine, or for the API by the name that the world has for it,
		// which a proxy on this machine passes on. Any other name was pointed here by a stranger's page.
		DisableLocalhostProtection: a.links.IsHost(r.Host),
		MaxRequestBodyBytes:        toolBody,
	})
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	a.crossOrigin.Handler(handler).ServeHTTP(w, r)
}

// mcpMessage is what has to be known of a message before the SDK reads it.
type mcpMessage struct {
	Method        string
	ID, RequestID json.RawMessage
}

// mcpMessageOf reads a message as the SDK does: the names of its fields are in small letters, where a struct's
// would be read in any, and "METHOD" after "method" would hide a call. What is no message is left to the SDK, which says so.
func mcpMessageOf(body []byte) (m mcpMessage) {
	var message, params map[string]json.RawMessage
	_ = json.Unmarshal(body, &message)
	_ = json.Unmarshal(message["method"], &m.Method)
	_ = json.Unmarshal(message["params"], &params)
	m.ID, m.RequestID = message["id"], params["requestId"]
	return m
}

// callName names a call to all apis: a session is its token's, and an id is JSON.
func (c caller) callName(session string, id json.RawMessage) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%s", c.tenant, c.token.ID, session, id))
	return hex.EncodeToString(sum[:])
}

// watchCall cancels a call when a message says so, to whichever api it came, until stop is called.
func (a *API) watchCall(ctx context.Context, name string, cancel context.CancelFunc) (stop func()) {
	cancelled, forget := a.client.WatchCall(name)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-cancelled:
			cancel()
		case <-ctx.Done():
		}
	})
	return func() { cancel(); watching.Wait(); forget() }
}
