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
	"sync"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// The metadata of a submission's job. A tenant could write it into a native job, too: what is read from it is
// bounded, and is that tenant's.
const (
	languageKey = "judge0"        // the language's id, which says that the job is a submission
	pieceKey    = "judge0."       // the submission itself, in pieces from 0 on
	uploadKey   = "judge0.upload" // the SHA-256 of the upload that has its texts, where they are large
	runKey      = "judge0.run"    // of a job that is one of several runs, and not the one of the token: whose

	pieceBytes = job.MaxMetadataBytes
	maxPieces  = 8
	// maxInline is how large a submission may be, in bytes, of which the metadata is to have all.
	maxInline = 256 << 10
	// maxTexts bounds texts that are an upload, in bytes of its JSON: an answer with all fields has memory for them, and
	// beside them for outputs as large as they may be by default.
	maxTexts = 12 << 20
)

// What is wrong with a submission that can't be kept, or not be answered with all of its fields.
var (
	errLongOptions = facade.BadRequest("compiler_options, command_line_arguments and callback_url are too long together")
	errLargeTexts  = facade.BadRequest(fmt.Sprintf("source_code, stdin, expected_output and additional_files are too large together (maximum is %d kilobytes in base64)", maxTexts>>10))
)

// keep returns the metadata of a submission's job. It fails with a facade.BadRequest. Texts that are too large for that become an upload.
func (s *submission) keep(ctx context.Context, c *facade.Call) (map[string]string, error) {
	metadata := map[string]string{languageKey: strconv.Itoa(s.LanguageID)}
	fits, err := s.inline(metadata)
	if fits || err != nil {
		return metadata, err
	}
	texts, err := job.Marshal(s.Texts)
	if err != nil {
		return nil, fmt.Errorf("encode texts of submission: %w", err)
	}
	if len(texts) > maxTexts {
		return nil, errLargeTexts
	}
	if metadata[uploadKey], err = c.Client.PutUpload(ctx, texts); err != nil {
		return nil, err
	}
	rest := *s
	rest.Texts = Texts{}
	if fits, err = rest.inline(metadata); err == nil && !fits {
		err = errLongOptions
	}
	return metadata, err
}

// inline puts a submission into metadata, if it fits.
func (s *submission) inline(metadata map[string]string) (fits bool, err error) {
	b, err := job.Marshal(s)
	if err != nil {
		return false, fmt.Errorf("encode submission: %w", err)
	}
	if len(b) > maxInline {
		return false, nil
	}
	pieces := pieces(b)
	if len(pieces) > maxPieces {
		return false, nil
	}
	for i, piece := range pieces {
		metadata[pieceKey+strconv.Itoa(i)] = piece
	}
	return true, nil
}

// A compressor takes 800 KiB, and a decompressor 40: to make one for each submission costs more than all else of the façade.
var (
	compressors = sync.Pool{New: func() any {
		w, err := flate.NewWriter(nil, flate.DefaultCompression)
		if err != nil {
			panic(err) // of another level
		}
		return w
	}}
	decompressors = sync.Pool{New: func() any { return flate.NewReader(nil) }}
)

// inflate reads what is compressed, up to so many bytes.
func inflate(packed io.Reader, most int64) ([]byte, error) {
	r, _ := decompressors.Get().(io.ReadCloser)
	defer decompressors.Put(r)
	if err := r.(flate.Resetter).Reset(packed, nil); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, most))
}

// pieces compresses a submission and cuts it so that metadata takes it.
func pieces(b []byte) []string {
	var packed bytes.Buffer
	w, _ := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(&packed)
	_, err := w.Write(b)
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

// errNotKept means that a job is no submission.
var errNotKept = errors.New("no submission")

// kept returns the submission that a job runs, without its texts where those are an upload.
func kept(metadata map[string]string) (*submission, error) {
	if metadata[languageKey] == "" {
		return nil, errNotKept
	}
	var text bytes.Buffer
	for i := range maxPieces {
		text.WriteString(metadata[pieceKey+strconv.Itoa(i)])
	}
	b, err := inflate(base64.NewDecoder(base64.RawStdEncoding, &text), maxInline+1)
	if err != nil || len(b) > maxInline {
		return nil, errNotKept
	}
	s := &submission{}
	if err := json.Unmarshal(b, s); err != nil || len(s.Runs) > maxRuns {
		return nil, errNotKept
	}
	return s, nil
}

// readTexts reads texts that are an upload. One that is gone leaves them empty: the outcome is there all the same.
func (s *submission) readTexts(ctx context.Context, c *facade.Call, metadata map[string]string) error {
	sum := metadata[uploadKey]
	if sum == "" {
		return nil
	}
	b, err := c.Client.GetUpload(ctx, sum, maxTexts)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read what was sent: %w", err)
	}
	if err := json.Unmarshal(b, &s.Texts); err != nil {
		return errNotKept
	}
	return nil
}
