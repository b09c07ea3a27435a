package e2b

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// The media types that E2B's clients know by a name of their own.
const (
	chartType = "application/vnd.glovebox.chart+json"
	tableType = "application/vnd.glovebox.table+json"
)

// resultFields are the fields of a result, by media type.
var resultFields = map[string]string{
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg",
	"application/pdf": "pdf", "text/latex": "latex", "application/json": "json", "application/javascript": "javascript",
	tableType: "data", chartType: "chart",
}

// resultLine is a line of a result: its fields by name.
type resultLine map[string]json.RawMessage

// write writes it as JSON, field by field: an encoder's buffers would have it twice more.
func (l resultLine) write(w io.Writer) error {
	mark := "{"
	for _, name := range slices.Sorted(maps.Keys(l)) {
		key, err := job.Marshal(name)
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		for _, part := range [][]byte{[]byte(mark), key, []byte(":"), l[name]} {
			if _, err := w.Write(part); err != nil {
				return fmt.Errorf("write result: %w", err)
			}
		}
		mark = ","
	}
	if _, err := io.WriteString(w, "}"); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// room is the memory that one result may take.
type room struct {
	left int64 // bytes
	take func(bytes int64) error
}

// mostShown is how much a result may take of the memory for answers, in bytes: what is stored of it, and what is sent of that. It is a
// quarter of that memory, of which nobody can have more than a half.
const mostShown = 16 << 20

// errNoRoom is what is too large to be sent, and is left out.
var errNoRoom = errors.New("the result is too large to be sent")

// hold fails with errNoRoom, or where there is no memory.
func (m *room) hold(bytes int64) error {
	if bytes > m.left {
		return errNoRoom
	}
	m.left -= bytes
	return m.take(bytes)
}

// resultOf is a result as E2B's clients read it, without what it has no room for. read returns what an artifact holds, and fails with
// errNoRoom.
func resultOf(shown job.Shown, m *room, read func(name string) ([]byte, error)) (resultLine, error) {
	line := resultLine{"type": json.RawMessage(`"result"`), "is_main_result": json.RawMessage("false")}
	if shown.Kind == job.ShownValue {
		line["is_main_result"] = json.RawMessage("true")
	}
	extra := resultLine{}
	for _, mediaType := range inOrder(shown.Data) {
		rendering := shown.Data[mediaType]
		content, err := []byte(rendering.Text), error(nil)
		if rendering.Artifact != "" {
			content, err = read(rendering.Artifact)
		}
		field := resultFields[mediaType]
		var value json.RawMessage
		if err == nil {
			value, err = fieldOf(mediaType, field, content, rendering.Artifact != "", m)
		}
		switch {
		case errors.Is(err, errNoRoom):
		case err != nil:
			return nil, err
		case field == "":
			extra[mediaType] = value
		default:
			line[field] = value
		}
	}
	if len(extra) == 0 {
		return line, nil
	}
	var err error
	if line["extra"], err = extra.encoded(m); errors.Is(err, errNoRoom) {
		delete(line, "extra")
		err = nil
	}
	return line, err
}

// inOrder are the media types of a result: what is stored comes last, for which there may be no room.
func inOrder(data map[string]job.Rendering) []string {
	stored := func(mediaType string) int { return min(len(data[mediaType].Artifact), 1) }
	return slices.SortedFunc(maps.Keys(data), func(a, b string) int {
		return cmp.Or(cmp.Compare(stored(a), stored(b)), cmp.Compare(a, b))
	})
}

// encoded is the line as JSON.
func (l resultLine) encoded(m *room) (json.RawMessage, error) {
	size := len("{}")
	for name, value := range l {
		size += 6*len(name) + len(`"":,`) + len(value)
	}
	if err := m.hold(int64(size)); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.Grow(size)
	err := l.write(&text)
	return text.Bytes(), err
}

// fieldOf is the value of a result in one media type: JSON as it is, images in base64, all else as text. It fails with errNoRoom.
func fieldOf(mediaType, field string, content []byte, stored bool, m *room) (json.RawMessage, error) {
	switch {
	case field == "chart":
		return chartOf(content, m)
	case (field == "data" || strings.HasSuffix(mediaType, "json")) && json.Valid(content):
		return compacted(content, m)
	case field == "text":
		return quoted(unquoted(content), m)
	case stored && isBinary(mediaType):
		return inBase64(content, m)
	}
	return quoted(content, m)
}

// compacted is JSON on one line.
func compacted(content []byte, m *room) (json.RawMessage, error) {
	if err := m.hold(int64(len(content))); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.Grow(len(content))
	if err := json.Compact(&text, content); err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return text.Bytes(), nil
}

func inBase64(content []byte, m *room) (json.RawMessage, error) {
	size := len(`""`) + base64.StdEncoding.EncodedLen(len(content))
	if err := m.hold(int64(size)); err != nil {
		return nil, err
	}
	text := append(make([]byte, 0, size), '"')
	return append(base64.StdEncoding.AppendEncode(text, content), '"'), nil
}

// quoted is text as a JSON string, of which a character may take six bytes. It is encoded piece by piece, once to know how much it is, and once
// to have it.
func quoted(content []byte, m *room) (json.RawMessage, error) {
	size := len(`""`)
	for piece := range facade.Pieces(content, facade.Valid) {
		size += len(piece)
	}
	if err := m.hold(int64(size)); err != nil {
		return nil, err
	}
	text := append(make([]byte, 0, size), '"')
	for piece := range facade.Pieces(content, facade.Valid) {
		text = append(text, piece...)
	}
	return append(text, '"'), nil
}

func isBinary(mediaType string) bool {
	return mediaType == "application/pdf" || strings.HasPrefix(mediaType, "image/") && mediaType != "image/svg+xml" ||
		strings.HasPrefix(mediaType, "audio/") || strings.HasPrefix(mediaType, "video/")
}

// unquoted is the text of a result without the quotes of a string of Python's or JavaScript's.
func unquoted(text []byte) []byte {
	if n := len(text); n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}

// artifact returns what one holds. It fails with errNoRoom, also for one that was not kept.
func (t *telling) artifact(ctx context.Context, id, name string, m *room) ([]byte, error) {
	f, err := t.call.Client.Open(ctx, id, producer.ArtifactPath(name))
	if errors.Is(err, job.ErrNotFound) {
		return nil, errNoRoom
	}
	if err != nil {
		return nil, fmt.Errorf("read result %q of execution %s: %w", name, id, err)
	}
	defer f.Close()
	if f.Size > mostShown {
		return nil, errNoRoom
	}
	if err := m.hold(f.Size); err != nil {
		return nil, err
	}
	b := make([]byte, f.Size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read result %q of execution %s: %w", name, id, err)
	}
	return b, nil
}
