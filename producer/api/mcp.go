package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
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
	// maxRequestID bounds the id of a call that can be cancelled, in bytes of JSON.
	maxRequestID = 256
)

// mcp answers one message of the Model Context Protocol. Nothing is kept from one to the next: only
// what is under way is known, so that a client of a revision before 2026-07-28 can cancel it by a
// message. Newer ones close the connection.
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
	session = c.tenant + "/" + c.token.ID + "/" + session
	switch {
	case message.Method == "initialize":
		w.Header().Set(mcpSessionHeader, rand.Text())
	case message.Method == "notifications/cancelled" && known:
		a.mcpCalls.cancel(session, message.Params.RequestID)
	case message.Method == "tools/call" && known:
		defer a.mcpCalls.add(session, message.ID, cancel)()
	}
	server := tools.Server(tools.ServerConfig{
		Caller: a.toolCaller(ctx, c), Languages: languages, Version: a.version, May: c.may, Until: ctx,
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true,
		// A page of another origin has no token, which is what would count; and a proxy on this machine
		// passes on names that are not this machine's.
		DisableLocalhostProtection: true,
		MaxRequestBodyBytes:        toolBody,
	})
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	a.crossOrigin.Handler(handler).ServeHTTP(w, r)
}

// mcpMessage is what has to be known of a message before the SDK reads it.
type mcpMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// mcpMessageOf reads a message. What is none is left to the SDK, which says so.
func mcpMessageOf(body []byte) (m mcpMessage) {
	if json.Unmarshal(body, &m) != nil {
		return mcpMessage{}
	}
	return m
}

// mcpCalls are calls under way in this process.
type mcpCalls struct {
	mu    sync.Mutex
	calls map[mcpCall]context.CancelFunc
}

// mcpCall names one: a session is its token's, and an id is JSON.
type mcpCall struct{ session, id string }

// add notes a call until done.
func (m *mcpCalls) add(session string, id json.RawMessage, cancel context.CancelFunc) (done func()) {
	call := mcpCall{session, string(id)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.calls[call]; taken || len(id) == 0 || len(id) > maxRequestID {
		return func() {}
	}
	if m.calls == nil {
		m.calls = map[mcpCall]context.CancelFunc{}
	}
	m.calls[call] = cancel
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.calls, call)
	}
}

// cancel ends a call, if it is under way.
func (m *mcpCalls) cancel(session string, id json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cancel, ok := m.calls[mcpCall{session, string(id)}]; ok {
		cancel()
	}
}
