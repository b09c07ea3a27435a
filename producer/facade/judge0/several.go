package judge0

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// several are submissions that one request asks for.
type several struct {
	tokens []string
	view   view
	hold   time.Duration // for all of them together
	// nulls says that what isn't there is null; else it is left out.
	nulls bool
	// notText is what is wrong where one of them is no text.
	notText string
	meta    any // answered besides them, unless it is nil
}

// answer sends them one after another. Each is read once and takes memory only until it is sent, so that however much
// they printed, all can be answered; one that is asked for again is kept until all are.
func (s several) answer(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	until := time.Now().Add(s.hold)
	l := looker{c: c, view: s.view}
	list := listWriter{w: w}
	again := map[string][]byte{}
	for i, token := range s.tokens {
		giveBack := c.Host.Passing()
		text, known := again[token]
		var err error
		if !known {
			text, err = s.one(r.Context(), &l, token, time.Until(until), list.sent)
		}
		if err == nil && text != nil {
			err = list.add(text)
		}
		giveBack()
		if err == nil && !known && slices.Contains(s.tokens[i+1:], token) {
			again[token] = text
			err = c.Host.Hold(r.Context(), int64(len(text)))
		}
		switch {
		case err == nil:
			continue
		case list.sent:
			panic(http.ErrAbortHandler) // half an answer must not look like a whole one
		case errors.Is(err, errNotText):
			writeJSON(w, http.StatusBadRequest, faultOf(s.notText))
		default:
			fail(w, r, c, err)
		}
		return
	}
	if err := list.end(s.meta); err != nil {
		panic(http.ErrAbortHandler) // the client has left
	}
}

// one is a submission as the list has it, nil where that leaves it out.
func (s several) one(ctx context.Context, l *looker, token string, d time.Duration, sent bool) ([]byte, error) {
	answer, err := l.look(ctx, token, d)
	switch {
	case errors.Is(err, job.ErrNotFound) && s.nulls:
		answer = nil
	case errors.Is(err, job.ErrNotFound):
		return nil, nil
	case errors.Is(err, errNotText) && sent: // too late to say it of the whole answer
		answer = map[string]any{"token": token, "error": errNotText.Error()}
	case err != nil:
		return nil, err
	}
	return job.Marshal(answer)
}

// listWriter writes a list of submissions. It sends nothing before there is more than it keeps, so that what goes
// wrong until then can still be said.
type listWriter struct {
	w    http.ResponseWriter
	b    bytes.Buffer
	n    int
	sent bool
}

// listBuffer is how much of a list is kept before it is sent, in bytes.
const listBuffer = 256 << 10

func (l *listWriter) add(submission []byte) error {
	separator := ","
	if l.n++; l.n == 1 {
		separator = `{"submissions":[`
	}
	l.b.WriteString(separator)
	l.b.Write(submission)
	if l.b.Len() > listBuffer {
		return l.send()
	}
	return nil
}

func (l *listWriter) send() error {
	if !l.sent {
		l.sent = true
		l.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	_, err := l.b.WriteTo(l.w)
	l.b = bytes.Buffer{} // one submission may have been large
	return err
}

func (l *listWriter) end(meta any) error {
	if l.n == 0 {
		l.b.WriteString(`{"submissions":[`)
	}
	l.b.WriteByte(']')
	if meta != nil {
		text, err := job.Marshal(meta)
		if err != nil {
			return err
		}
		l.b.WriteString(`,"meta":`)
		l.b.Write(text)
	}
	l.b.WriteByte('}')
	return l.send()
}
