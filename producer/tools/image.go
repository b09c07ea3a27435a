package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // what DecodeConfig knows
	_ "image/jpeg"
	_ "image/png"
	"io"
	"slices"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// maxImageBytes is how large an image may be that an answer holds itself, maxImages how many.
	maxImageBytes, maxImages = 64 << 10, 4
	// maxImageSide is how many pixels wide and high: APIs of models refuse more than 8000, and then
	// all that comes after it in the same conversation.
	maxImageSide = 8000
)

// imageEnds are the bytes that an image of each type ends with; one that was cut off is refused, too.
var imageEnds = map[string]string{
	"image/png":  "IEND\xaeB`\x82",
	"image/jpeg": "\xff\xd9",
	"image/gif":  ";",
}

// isImage reports whether an artifact may be an image that an answer holds itself.
func isImage(f job.Artifact) bool {
	return imageEnds[f.MediaType] != "" && f.Size > 0 && f.Size <= maxImageBytes
}

// readImage reads an image that a program made. It fails unless that is what its media type says: a
// program may write anything.
func (c Caller) readImage(ctx context.Context, id string, f job.Artifact) ([]byte, error) {
	d, err := c.Glovebox.Open(ctx, id, producer.ArtifactPath(f.Name))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	b := make([]byte, f.Size)
	if _, err := io.ReadFull(d, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name, err)
	}
	return b, checkImage(b, f.MediaType)
}

func checkImage(b []byte, mediaType string) error {
	config, format, err := image.DecodeConfig(bytes.NewReader(b))
	sides := []int{config.Width, config.Height}
	switch {
	case err != nil:
		return fmt.Errorf("read image: %w", err)
	case "image/"+format != mediaType || slices.Min(sides) < 1 || slices.Max(sides) > maxImageSide:
		return fmt.Errorf("read image: %s of %d × %d pixels", format, config.Width, config.Height)
	case !bytes.HasSuffix(b, []byte(imageEnds[mediaType])):
		return errors.New("read image: its end is missing")
	}
	return nil
}
