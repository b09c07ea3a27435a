package job

import (
	"encoding/json"
	"errors"
)

// Bounds of what one execution of a session shows.
const (
	// MaxShown is how many results it has.
	MaxShown = 64
	// InlineShown is how many bytes of text a result holds itself of one media type, and InlineShownTotal how many all results of the
	// execution hold together. What is longer is an artifact, or left out.
	InlineShown      = 64 << 10
	InlineShownTotal = 256 << 10
	// MaxMediaTypes is in how many media types one result may come.
	MaxMediaTypes = 16
	// MaxExceptionName, MaxExceptionValue and MaxTraceback bound an [Exception], in bytes.
	MaxExceptionName  = 256
	MaxExceptionValue = 8 << 10
	MaxTraceback      = 32 << 10
	// MaxShownNote bounds the note of a result, in bytes.
	MaxShownNote = 1 << 10
)

// The kinds of result.
const (
	ShownValue   = "value"
	ShownDisplay = "display"
)

// Shown is the value of an execution's last expression, or something that its code displayed. All of it is the program's word.
type Shown struct {
	Kind string `json:"kind" enum:"value,display" doc:"value: that of the last expression. display: what the code displayed, or a figure that it drew."`
	// Data has it by media type. Whoever shows text/html runs the program's scripts.
	Data map[string]Rendering `json:"data" doc:"By media type: text, or the artifact that holds it. It is the program's word: HTML of it can hold scripts."`
	// Note says what is missing, and why.
	Note string `json:"note,omitempty" doc:"What was left out or cut, and why."`
}

// Rendering is a result in one media type: a text, or the name of the artifact that holds it. In JSON it is a string, or {"artifact": name}.
type Rendering struct {
	Text     string
	Artifact string
}

// namedArtifact is a [Rendering] that is an artifact, as JSON has it.
type namedArtifact struct {
	Artifact string `json:"artifact"`
}

// MarshalJSON writes the text, or {"artifact": name}.
func (r Rendering) MarshalJSON() ([]byte, error) {
	if r.Artifact != "" {
		return Marshal(namedArtifact{r.Artifact})
	}
	return Marshal(r.Text)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Rendering) UnmarshalJSON(b []byte) error {
	*r = Rendering{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &r.Text)
	}
	var named namedArtifact
	if err := json.Unmarshal(b, &named); err != nil {
		return err
	}
	if named.Artifact == "" {
		return errors.New("a result is neither a text nor {\"artifact\": name}")
	}
	r.Artifact = named.Artifact
	return nil
}

// Exception is the error that ended an execution, in the words of its language. It is the program's word.
type Exception struct {
	Name      string `json:"name" example:"ZeroDivisionError"`
	Value     string `json:"value" example:"division by zero"`
	Traceback string `json:"traceback" doc:"As it is on stderr: the user's frames only. Of a long one the middle is left out."`
}

// ValidMediaType reports whether s is a media type without parameters, as RFC 6838 writes names.
func ValidMediaType(s string) bool {
	slash := 0
	start := true
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '/' && !start && slash == 0:
			slash = i
			start = true
			continue
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case !start && (c == '!' || c == '#' || c == '$' || c == '&' || c == '-' || c == '^' || c == '_' || c == '.' || c == '+'):
		default:
			return false
		}
		start = false
	}
	const most = 127
	return slash > 0 && !start && slash <= most && len(s)-slash-1 <= most
}
