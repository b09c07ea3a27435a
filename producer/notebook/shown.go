package notebook

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

const (
	// maxImage is how large an image, or another file that is shown, may be that is in the notebook, bytes, and maxImages all of a cell.
	maxImage  = 256 << 10
	maxImages = 1 << 20
)

// plain is the media type that everything that is shown has a text in.
const plain = "text/plain"

// images reads what a cell shows of its artifacts.
type images struct {
	from producer.Files
	r    job.Result
	left int64           // bytes that there may still be
	used map[string]bool // by name
}

// shownOf is what an execution showed: its results, and the charts beside them that it drew. An image that is large is left out, and one that is gone.
func shownOf(ctx context.Context, from producer.Files, r job.Result, count *int64) (outputs []any, err error) {
	i := &images{from: from, r: r, left: maxImages, used: map[string]bool{}}
	for _, x := range r.Results {
		shown := display{Type: "display_data", Data: map[string]any{}}
		for mediaType, d := range x.Data {
			content, err := i.rendering(ctx, mediaType, d)
			if err != nil {
				return nil, err
			}
			if content != nil {
				shown.Data[mediaType] = content
			}
		}
		if len(shown.Data) == 0 {
			continue
		}
		if x.Kind == job.ShownValue {
			shown.Type = "execute_result"
			outputs = append(outputs, value{shown, count})
			continue
		}
		outputs = append(outputs, shown)
	}
	for _, a := range r.Artifacts {
		if a.Kind != job.KindChart || a.MediaType != "image/png" || i.used[a.Name] {
			continue
		}
		content, err := i.rendering(ctx, a.MediaType, job.Rendering{Artifact: a.Name})
		if err != nil {
			return nil, err
		}
		if content != nil {
			outputs = append(outputs, display{Type: "display_data", Data: map[string]any{a.MediaType: content, plain: a.Name}})
		}
	}
	return outputs, nil
}

// rendering is what a notebook has of one media type: a text, JSON, or base64 of anything else. It is nil where there is nothing to show.
func (i *images) rendering(ctx context.Context, mediaType string, d job.Rendering) (any, error) {
	text := d.Text
	if d.Artifact != "" {
		i.used[d.Artifact] = true
		b, err := i.read(ctx, d.Artifact)
		if b == nil || err != nil {
			return nil, err
		}
		if !isText(mediaType) {
			return base64.StdEncoding.EncodeToString(b), nil
		}
		text = strings.ToValidUTF8(string(b), "\ufffd")
	}
	if strings.HasSuffix(mediaType, "json") { // by nbformat's rules it is a value, and no text
		if !json.Valid([]byte(text)) {
			return nil, nil
		}
		return json.RawMessage(text), nil
	}
	return text, nil
}

// isText reports whether a notebook has files of that type as text.
func isText(mediaType string) bool {
	return strings.HasPrefix(mediaType, "text/") || mediaType == "image/svg+xml" || mediaType == "application/javascript" || strings.HasSuffix(mediaType, "json")
}

// read returns an artifact, or nil where it is too large or gone.
func (i *images) read(ctx context.Context, name string) ([]byte, error) {
	for _, a := range i.r.Artifacts {
		if a.Name != name || a.Size > min(maxImage, i.left) {
			continue
		}
		i.left -= a.Size
		d, err := i.from.Open(ctx, i.r.ID, producer.ArtifactPath(name))
		var b []byte
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(d, maxImage))
			d.Close()
		}
		if errors.Is(err, job.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %q of execution %s: %w", name, i.r.ID, err)
		}
		return b, nil
	}
	return nil, nil
}
