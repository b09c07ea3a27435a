package job

import (
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"
)

const (
	// MaxEndpointHeaders is how many headers of its own an endpoint has, and MaxEndpointHeaderBytes what these take together.
	MaxEndpointHeaders     = 16
	MaxEndpointHeaderBytes = 4 << 10
)

// keptHeaders are what the sender, the connection or the signature says itself: nobody else may.
var keptHeaders = []string{
	"Host", "User-Agent", "Traceparent", "Tracestate", "Baggage", "Expect", "Accept-Encoding", "Range",
	"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// checkEndpointHeaders refuses headers that no message can have. It tells no value, as those are secrets.
func checkEndpointHeaders(add addFunc, headers map[string]string) {
	if len(headers) > MaxEndpointHeaders {
		add("headers", len(headers), "has too many entries", fmt.Sprintf("0 to %d", MaxEndpointHeaders))
		return
	}
	size, seen := 0, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		size += len(name) + len(value)
		field, canonical := "headers."+clip(name), textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !headerName.MatchString(name):
			add(field, clip(name), "is no header's name", "letters, digits and -, up to 64")
		case slices.Contains(keptHeaders, canonical), strings.HasPrefix(canonical, "Content-"), strings.HasPrefix(canonical, "Webhook-"), strings.HasPrefix(canonical, "Proxy-"):
			add(field, clip(name), "is not yours to set", "any but Host, User-Agent, Content-*, Webhook-*, Proxy-*, Traceparent, Tracestate, Baggage, Expect, Accept-Encoding, Range, and those of a connection")
		case seen[canonical]:
			add(field, clip(name), "appears more than once", "each once, whatever its case")
		case !isHeaderValue(value):
			add(field, nil, "has a value that no header can have", "printable ASCII, without blanks at its ends")
		}
		seen[canonical] = true
	}
	if size > MaxEndpointHeaderBytes {
		add("headers", size, "are too large together", fmt.Sprintf("up to %d bytes", MaxEndpointHeaderBytes))
	}
}

// isHeaderValue reports whether a text is one line of printable ASCII.
func isHeaderValue(s string) bool {
	for _, b := range []byte(s) {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return s != "" && strings.TrimSpace(s) == s
}
