package e2b

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// listSandboxes lists the tenant's sessions that have not ended, newest first. Clients without a token are told of none: which are theirs
// nobody knows, and the ID is all that keeps one from another.
func listSandboxes(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	query := r.URL.Query()
	limit := producer.MaxPage
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			fail(w, r, c, facade.BadRequest(fmt.Sprintf("limit is %.40q: want a number from 1 to %d", text, producer.MaxPage)))
			return
		}
		limit = min(n, producer.MaxPage)
	}
	matches, err := filterOf(query)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	list, next, err := listRunning(r.Context(), c, query.Get("nextToken"), limit, matches)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	facade.Write(w, http.StatusOK, list)
}

// listRunning returns up to limit sandboxes, and where to go on.
func listRunning(ctx context.Context, c *facade.Call, cursor string, limit int, matches func(sandbox) bool) (list []sandbox, next string, err error) {
	list = []sandbox{}
	for scanned := 0; ; {
		page, err := c.Client.ListSessions(ctx, producer.SessionListOptions{Cursor: cursor, Limit: max(limit-len(list), leastScanned)})
		if err != nil || c.Anonymous {
			return list, "", err
		}
		for i, x := range page.Sessions {
			s := shown(x)
			if x.Status == job.SessionEnded || !matches(s) {
				continue
			}
			if list = append(list, s); len(list) == limit {
				if i+1 < len(page.Sessions) {
					page.Next = direct.SessionCursor(x)
				}
				return list, page.Next, nil
			}
		}
		cursor = page.Next
		if scanned += len(page.Sessions); cursor == "" || scanned >= mostScanned {
			return list, cursor, nil
		}
	}
}

// filterOf reads which sandboxes are asked for.
func filterOf(query url.Values) (func(sandbox) bool, error) {
	metadata, err := url.ParseQuery(query.Get("metadata"))
	if err != nil {
		return nil, facade.BadRequest("metadata is not a query of names and values")
	}
	states := strings.Split(strings.Join(query["state"], ","), ",")
	return func(s sandbox) bool {
		for k := range metadata {
			if s.Metadata[unescaped(k)] != unescaped(metadata.Get(k)) {
				return false
			}
		}
		return (states[0] == "" || slices.Contains(states, s.State)) && (query.Get("template") == "" || query.Get("template") == s.TemplateID)
	}, nil
}

// unescaped undoes the second of two escapes: SDKs escape names and values before they make a query of them.
func unescaped(s string) string {
	if once, err := url.QueryUnescape(s); err == nil {
		return once
	}
	return s
}
