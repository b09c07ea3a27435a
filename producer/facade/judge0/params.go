package judge0

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"mime"
	"net/url"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/producer/facade"
)

// params are what a request says, by name, as text: Judge0 takes a number as a string, and a string as a
// number. What is null, an object or a list is absent.
type params map[string]string

// maxBodyEntries is how many entries all objects and arrays of a body may have together: those of a whole batch, and some more.
const maxBodyEntries = 16384

// errBody means that a body is not what its type says.
var errBody = errors.New("the body is no JSON object")

// bodyParams reads what a body says: JSON, or a form.
func bodyParams(contentType string, body []byte) (params, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil && kind == "application/x-www-form-urlencoded" {
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errBody
		}
		return queryParams(values), nil
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return params{}, nil
	}
	return jsonParams(body)
}

// queryParams are those of a query or a form: the last of a name counts.
func queryParams(values url.Values) params {
	p := params{}
	for name, list := range values {
		p[name] = list[len(list)-1]
	}
	return p
}

// jsonParams reads an object.
func jsonParams(body []byte) (params, error) {
	if err := errors.Join(facade.CheckEntries(body, maxBodyEntries), facade.CheckText(body)); err != nil {
		return nil, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil || object == nil {
		return nil, errBody
	}
	p := params{}
	for name, raw := range object {
		if text, ok := facade.Scalar(raw); ok {
			p[name] = text
		}
	}
	return p, nil
}

// number returns a number, and whether the text is one.
func number(text string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// isTrue reports whether a parameter of the request itself is on: Judge0 compares these with one word, where it asks Rails of a submission's.
func isTrue(text string) bool { return text == "true" }

// truth reports whether Rails takes the text for true.
func truth(text string) bool {
	switch text {
	case "", "false", "0", "f", "F", "FALSE", "off", "OFF":
		return false
	}
	return true
}
