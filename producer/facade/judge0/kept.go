package judge0

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// The metadata of a submission's job. A tenant could write it into a native job, too: what is read from it is
// bounded, and is that tenant's.
const (
	languageKey = "judge0"        // the language's id, which says that the job is a submission
	uploadKey   = "judge0.upload" // the SHA-256 of the upload that has the submission, or
	pieceKey    = "judge0."       // the submission itself, in pieces from 0 on
	runKey      = "judge0.run"    // one of the jobs of a submission of several runs, and not the one of its token

	pieceBytes = job.MaxMetadataBytes
	maxPieces  = 8
	// maxInline is how large a submission may be, in bytes, of which the metadata is to have all.
	maxInline = 256 << 10
	// maxKept bounds one that is an upload.
	maxKept = 64 << 20
)

// keep returns the metadata of a submission's job. What is too large for that becomes an upload.
func (s *submission) keep(ctx context.Context, c *facade.Call) (map[string]string, error) {
	b, err := job.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode submission: %w", err)
	}
	metadata := map[string]string{languageKey: strconv.Itoa(s.LanguageID)}
	if len(b) <= maxInline {
		if pieces := pieces(b); len(pieces) <= maxPieces {
			for i, piece := range pieces {
				metadata[pieceKey+strconv.Itoa(i)] = piece
			}
			return metadata, nil
		}
	}
	metadata[uploadKey], err = c.Client.PutUpload(ctx, b)
	return metadata, err
}

// pieces compresses a submission and cuts it so that metadata takes it.
func pieces(b []byte) []string {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	text := base64.RawStdEncoding.EncodeToString(packed.Bytes())
	var list []string
	for len(text) > 0 {
		n := min(len(text), pieceBytes)
		list = append(list, text[:n])
		text = text[n:]
	}
	return list
}

// errNotKept means that a job is no submission, or that what was sent is gone.
var errNotKept = errors.New("no submission")

// kept returns the submission that a job runs.
func kept(ctx context.Context, c *facade.Call, metadata map[string]string) (*submission, error) {
	if metadata[languageKey] == "" {
		return nil, errNotKept
	}
	b, err := keptBytes(ctx, c, metadata)
	if err != nil {
		return nil, err
	}
	s := &submission{}
	if err := json.Unmarshal(b, s); err != nil || len(s.Runs) > maxRuns {
		return nil, errNotKept
	}
	return s, nil
}

func keptBytes(ctx context.Context, c *facade.Call, metadata map[string]string) ([]byte, error) {
	if sum := metadata[uploadKey]; sum != "" {
		b, err := c.Client.GetUpload(ctx, sum, maxKept)
		if errors.Is(err, job.ErrNotFound) {
			err = errNotKept
		}
		return b, err
	}
	var text bytes.Buffer
	for i := range maxPieces {
		text.WriteString(metadata[pieceKey+strconv.Itoa(i)])
	}
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(base64.NewDecoder(base64.RawStdEncoding, &text)), maxInline+1))
	if err != nil || len(b) > maxInline {
		return nil, errNotKept
	}
	return b, nil
}
