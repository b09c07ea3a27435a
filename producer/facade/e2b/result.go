package e2b

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
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

// resultOf is a result as E2B's clients read it. read returns what an artifact holds, nil if it is too large to be sent.
func resultOf(shown job.Shown, read func(name string) ([]byte, error)) (resultLine, error) {
	line := resultLine{"type": json.RawMessage(`"result"`), "is_main_result": json.RawMessage("false")}
	if shown.Kind == job.ShownValue {
		line["is_main_result"] = json.RawMessage("true")
	}
	extra := map[string]json.RawMessage{}
	for mediaType, rendering := range shown.Data {
		content := []byte(rendering.Text)
		if rendering.Artifact != "" {
			var err error
			if content, err = read(rendering.Artifact); err != nil {
				return nil, err
			}
			if content == nil {
				continue
			}
		}
		field := resultFields[mediaType]
		value, err := fieldOf(mediaType, field, content, rendering.Artifact != "")
		if err != nil {
			return nil, err
		}
		if field == "" {
			extra[mediaType] = value
			continue
		}
		line[field] = value
	}
	if len(extra) > 0 {
		text, err := job.Marshal(extra)
		if err != nil {
			return nil, fmt.Errorf("encode result: %w", err)
		}
		line["extra"] = text
	}
	return line, nil
}

// fieldOf is the value of a result in one media type: JSON as it is, images in base64, all else as text.
func fieldOf(mediaType, field string, content []byte, stored bool) (json.RawMessage, error) {
	switch {
	case (field == "chart" || field == "data" || strings.HasSuffix(mediaType, "json")) && json.Valid(content):
		return content, nil
	case field == "text":
		return job.Marshal(unquoted(valid(content)))
	case stored && isBinary(mediaType):
		return job.Marshal(base64.StdEncoding.EncodeToString(content))
	}
	return job.Marshal(valid(content))
}

func isBinary(mediaType string) bool {
	return mediaType == "application/pdf" || strings.HasPrefix(mediaType, "image/") && mediaType != "image/svg+xml" ||
		strings.HasPrefix(mediaType, "audio/") || strings.HasPrefix(mediaType, "video/")
}

// unquoted is the text of a result without the quotes of a string of Python's or JavaScript's.
func unquoted(text string) string {
	if n := len(text); n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}

// mostShown is how large an artifact may be that is sent with a result, in bytes.
const mostShown = 16 << 20

// artifact returns what one holds, within the memory for answers.
func (t *telling) artifact(ctx context.Context, id, name string) ([]byte, error) {
	f, err := t.call.Client.Open(ctx, id, producer.ArtifactPath(name))
	if errors.Is(err, job.ErrNotFound) {
		return nil, nil // it was not kept
	}
	if err != nil {
		return nil, fmt.Errorf("read result %q of execution %s: %w", name, id, err)
	}
	defer f.Close()
	if f.Size > mostShown {
		return nil, nil
	}
	const weight = 4 // as it is, in base64, as a field and as a line
	if err := t.call.Host.Hold(ctx, weight*f.Size); err != nil {
		return nil, err
	}
	b := make([]byte, f.Size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read result %q of execution %s: %w", name, id, err)
	}
	return b, nil
}
