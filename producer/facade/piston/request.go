package piston

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/glovebox-run/glovebox/producer/facade"
)

// request is what a client sends to execute, checked as far as it goes without knowing the runtimes. Fields
// that are not here are ignored.
type request struct {
	language, version string
	files             []file
	stdin             string
	args              []string
	limits            map[string]float64 // by name, those that are given and not -1
}

type file struct {
	name    string // "" if it has none
	content []byte
	utf8    bool // a source, not data
}

// limitNames are in the order in which Piston checks them.
var limitNames = []string{"compile_memory_limit", "run_memory_limit", "compile_timeout", "run_timeout", "compile_cpu_time", "run_cpu_time"}

// checkMediaType fails for a body that claims to be neither JSON nor plain text, which npm's client sends JSON as.
func checkMediaType(r *http.Request) bool {
	sent := r.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(sent)
	return sent == "" || err == nil && (mediaType == "application/json" || mediaType == "text/plain")
}

// readRequest decodes a request. It fails with a facade.BadRequest.
func readRequest(body []byte) (request, error) {
	if err := facade.CheckEntries(body, maxEntries); err != nil {
		return request{}, err
	}
	var sent map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&sent); err != nil || sent == nil {
		return request{}, facade.BadRequest("the body is not a JSON object")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return request{}, facade.BadRequest("the body has more than a JSON object")
	}
	var r request
	var ok bool
	if r.language, ok = facade.Text(sent["language"]); !ok || r.language == "" {
		return r, facade.BadRequest("language is required as a string")
	}
	if r.version, ok = facade.Text(sent["version"]); !ok || r.version == "" {
		return r, facade.BadRequest("version is required as a string")
	}
	var err error
	if r.files, err = readFiles(sent["files"]); err != nil {
		return r, err
	}
	if r.stdin, ok = facade.Text(sent["stdin"]); !ok && !absent(sent["stdin"]) {
		return r, facade.BadRequest("If specified, stdin must be a string")
	}
	if r.args, err = readArgs(sent["args"]); err != nil {
		return r, err
	}
	r.limits, err = readLimits(sent)
	return r, err
}

// maxEntries is how many entries all objects and arrays of a body may have together: those of its files, with three each, and some arguments.
const maxEntries = 16384

// maxFiles is as many files as Piston allows; a job may have fewer.
const maxFiles = 2048

func readFiles(sent json.RawMessage) ([]file, error) {
	var list []json.RawMessage
	if json.Unmarshal(sent, &list) != nil || list == nil {
		return nil, facade.BadRequest("files is required as an array")
	}
	if len(list) > maxFiles {
		return nil, facade.BadRequest(fmt.Sprintf("files has %d entries; allowed: %d", len(list), maxFiles))
	}
	files := make([]file, len(list))
	for i, one := range list {
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(one, &fields) // what is no object has no content
		content, ok := facade.Text(fields["content"])
		if !ok {
			return nil, facade.BadRequest(fmt.Sprintf("files[%d].content is required as a string", i))
		}
		encoding, _ := facade.Text(fields["encoding"]) // any other, or none, is utf8
		decoded, err := decode(content, encoding)
		if err != nil {
			return nil, facade.BadRequest(fmt.Sprintf("files[%d].content is not %s", i, encoding))
		}
		name, _ := facade.Text(fields["name"]) // without one it is named by its place
		if name != "" && !strings.HasSuffix(name, "/") {
			name = path.Clean(name) // ./main.py
		}
		files[i] = file{name, decoded, encoding != "base64" && encoding != "hex"}
	}
	return files, nil
}

// decode decodes content as leniently as Node does: either alphabet of base64, with padding or without,
// and white space between.
func decode(content, encoding string) ([]byte, error) {
	switch encoding {
	case "base64":
		plain := strings.NewReplacer("-", "+", "_", "/", "=", "", " ", "", "\n", "", "\r", "", "\t", "").Replace(content)
		return base64.RawStdEncoding.DecodeString(plain)
	case "hex":
		return hex.DecodeString(content)
	}
	return []byte(content), nil
}

// readArgs takes numbers, too, as their text: a shell would.
func readArgs(sent json.RawMessage) ([]string, error) {
	const fault = facade.BadRequest("If specified, args must be an array of strings")
	if absent(sent) {
		return nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(sent, &list) != nil {
		return nil, fault
	}
	args := make([]string, len(list))
	for i, one := range list {
		var number json.Number
		arg, ok := facade.Text(one)
		if !ok {
			if json.Unmarshal(one, &number) != nil || absent(one) {
				return nil, fault
			}
			arg = number.String()
		}
		args[i] = arg
	}
	return args, nil
}

func readLimits(sent map[string]json.RawMessage) (map[string]float64, error) {
	limits := map[string]float64{}
	for _, name := range limitNames {
		if absent(sent[name]) {
			continue
		}
		var n float64
		if json.Unmarshal(sent[name], &n) != nil {
			return nil, facade.BadRequest("If specified, " + name + " must be a number")
		}
		switch {
		case n < 0 && n != -1:
			return nil, facade.BadRequest(name + " must be non-negative")
		case n > 0:
			limits[name] = n
		}
	}
	return limits, nil
}

// absent reports whether a field is as good as not there, as JavaScript has it.
func absent(v json.RawMessage) bool {
	switch string(v) {
	case "", "null", "false", `""`:
		return true
	}
	return false
}
