package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image/png"
	"io"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// What is shown of pictures: a terminal has to hold each of them, and they are a stranger's.
const (
	maxPicture      = 1 << 20 // bytes
	maxPictureSide  = 4096    // pixels
	maxPictures     = 4
	kittyChunk      = 4096 // bytes of base64 in one escape code, as kitty's protocol has it
	pictureMedium   = "image/png"
	escape, endText = "\x1b", "\x1b\\"
)

// inline is how a terminal takes a picture in its text.
type inline func(w io.Writer, content []byte) error

// inlinePictures is nil for a terminal that is not known to show any.
func (a *app) inlinePictures() inline {
	switch program := a.getenv("TERM_PROGRAM"); {
	case !isTerminal(a.stdout), a.getenv("TMUX") != "": // which passes them on only when told to
		return nil
	case a.getenv("KITTY_WINDOW_ID") != "", a.getenv("TERM") == "xterm-kitty", program == "ghostty":
		return kittyPicture
	case program == "iTerm.app", program == "WezTerm":
		return itermPicture
	}
	return nil
}

// kittyPicture follows https://sw.kovidgoyal.net/kitty/graphics-protocol: a PNG that is shown at once, in chunks.
func kittyPicture(w io.Writer, content []byte) error {
	var b bytes.Buffer
	rest, first := base64.StdEncoding.EncodeToString(content), "a=T,f=100,q=2,"
	for more := 1; more == 1; first = "" {
		n := min(kittyChunk, len(rest))
		if n == len(rest) {
			more = 0
		}
		fmt.Fprintf(&b, "%s_G%sm=%d;%s%s", escape, first, more, rest[:n], endText)
		rest = rest[n:]
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// itermPicture follows https://iterm2.com/documentation-images.html.
func itermPicture(w io.Writer, content []byte) error {
	_, err := fmt.Fprintf(w, "%s]1337;File=inline=1;size=%d:%s\a\n", escape, len(content), base64.StdEncoding.EncodeToString(content))
	return err
}

// showPictures shows the pictures of a result, in a terminal that can.
func (a *app) showPictures(ctx context.Context, files producer.Files, r job.Result) error {
	show := a.inlinePictures()
	if show == nil {
		return nil
	}
	shown := 0
	for _, f := range r.Artifacts {
		if f.MediaType != pictureMedium || f.Size > maxPicture || shown == maxPictures {
			continue
		}
		content, err := picture(ctx, files, r.ID, f.Name)
		if err != nil {
			fmt.Fprintf(a.stderr, "glovebox: %s is not shown: %v\n", plain(f.Name), err)
			continue
		}
		if err := show(a.stdout, content); err != nil {
			return err
		}
		shown++
	}
	return nil
}

// picture reads a PNG, and drops what only calls itself one.
func picture(ctx context.Context, files producer.Files, id, name string) ([]byte, error) {
	body, err := files.Open(ctx, id, producer.ArtifactPath(name))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, maxPicture+1))
	if err != nil {
		return nil, err
	}
	size, err := png.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if size.Width > maxPictureSide || size.Height > maxPictureSide || len(content) > maxPicture {
		return nil, fmt.Errorf("it has %d × %d pixels and %s; %d × %d and %s are the most",
			size.Width, size.Height, strings.TrimSpace(bytesOf(int64(len(content)))), maxPictureSide, maxPictureSide, bytesOf(maxPicture))
	}
	return content, nil
}
