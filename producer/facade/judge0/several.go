package judge0

import (
	"bytes"
	"errors"
	"net/http"
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

// answer sends them one after another. Each takes memory only until it is sent, so that however much they printed, all
// can be answered.
func (s several) answer(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	until := time.Now().Add(s.hold)
	l := looker{c: c, view: s.view}
	list := listWriter{w: w}
	for _, token := range s.tokens {
		giveBack := c.Host.Passing()
		answer, err := l.look(r.Context(), token, time.Until(until))
		switch {
		case errors.Is(err, job.ErrNotFound) && s.nulls:
			err = list.add(nil)
		case errors.Is(err, job.ErrNotFound):
			err = nil
		case errors.Is(err, errNotText) && list.sent: // too late to say it of the whole answer
			err = list.add(map[string]any{"token": token, "error": errNotText.Error()})
		case err == nil:
			err = list.add(answer)
		}
		giveBack()
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

func (l *listWriter) add(submission map[string]any) error {
	text, err := job.Marshal(submission)
	if err != nil {
		return err
	}
	separator := ","
	if l.n++; l.n == 1 {
		separator = `{"submissions":[`
	}
	l.b.WriteString(separator)
	l.b.Write(text)
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
