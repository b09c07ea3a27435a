package tools

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

// tailTime bounds how long the end of a stream is read: the beginning is there without it.
const tailTime = 10 * time.Second

// stream is what is told of one, in at most so many bytes and a remark: its beginning and its end. Of a long one a result has only the
// beginning, so the end is read from where all of it is.
func (c Caller) stream(ctx context.Context, id, path, text, url string, most int) string {
	if url == "" || len(text) <= job.InlineOutput-utf8.UTFMax { // it is all there, as text
		return cut(text, most)
	}
	end, size, err := c.end(ctx, id, path, int64(most/2))
	if err != nil {
		c.report(fmt.Errorf("read the end of %s: %w", path, err))
		return beginning(text, most) + "\n… what follows could not be read …\n"
	}
	return shortened(beginning(text, most/2), end, size)
}

// end returns the last so many bytes of a stream, without a character that begins before them, and how many bytes there are in all.
func (c Caller) end(ctx context.Context, id, path string, most int64) (text string, size int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, tailTime)
	defer cancel()
	d, err := c.Glovebox.Open(ctx, id, path)
	if err != nil {
		return "", 0, err
	}
	defer d.Close()
	if size, err = io.CopyN(io.Discard, d, max(d.Size-most, 0)); err != nil {
		return "", 0, err
	}
	b, err := io.ReadAll(io.LimitReader(d, most))
	if err != nil {
		return "", 0, err
	}
	return strings.ToValidUTF8(ending(string(b)), "\uFFFD"), size + int64(len(b)), nil
}

// cut returns a text of at most so many bytes and a remark: its beginning, and as much of its end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return shortened(beginning(text, most/2), ending(text[len(text)-most/2:]), int64(len(text)))
}

// shortened is a text of so many bytes of which only these are told.
func shortened(beginning, end string, size int64) string {
	return fmt.Sprintf("%s\n… %d bytes are left out here …\n%s", beginning, size-int64(len(beginning)+len(end)), end)
}

// beginning is as much of a text's beginning as so many bytes hold.
func beginning(text string, most int) string {
	return string(job.WholeCharacters([]byte(text[:min(len(text), most)])))
}

// ending is a piece of a text without the rest of a character at its beginning.
func ending(piece string) string {
	for i := range min(len(piece), utf8.UTFMax) {
		if utf8.RuneStart(piece[i]) {
			return piece[i:]
		}
	}
	return piece
}
