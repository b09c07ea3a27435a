package direct

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/record"
)

// sealHeaders seals the headers of an endpoint, so that Redis alone tells nobody, workers included. Names are as they are sent.
func (c *Client) sealHeaders(id string, headers map[string]string) (record.SealedHeaders, error) {
	if len(headers) == 0 {
		return record.SealedHeaders{}, nil
	}
	named := make(map[string]string, len(headers))
	for name, value := range headers {
		named[textproto.CanonicalMIMEHeaderKey(name)] = value
	}
	text, err := json.Marshal(named)
	if err != nil {
		return record.SealedHeaders{}, fmt.Errorf("encode headers of endpoint: %w", err)
	}
	seals, err := c.seals()
	if err != nil {
		return record.SealedHeaders{}, err
	}
	sealed, err := seals.Public().Seal(c.tenant, id, text)
	if err != nil {
		return record.SealedHeaders{}, err
	}
	return record.SealedHeaders{Names: slices.Sorted(maps.Keys(named)), Key: sealed.Key, Data: sealed.Data}, nil
}

// sameOrigin reports whether two URLs that were checked lead to one server.
func sameOrigin(a, b string) bool {
	one, err := url.Parse(a)
	two, err2 := url.Parse(b)
	return err == nil && err2 == nil && one.Scheme == two.Scheme && strings.EqualFold(one.Host, two.Host)
}
