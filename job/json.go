package job

import (
	"bytes"
	"encoding/json"
)

// Marshal is [json.Marshal] for what is stored and is never read as HTML: "<" is the one
// byte that it was, and not the six of its escape.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
