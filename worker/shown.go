package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// shownLine is what an interpreter says of one result, or at the end of them.
type shownLine struct {
	job.Shown

	Exception *job.Exception `json:"exception"`
	LeftOut   int            `json:"left_out"`
}

// readShown reads what an interpreter showed. It is the program's word: what is not as it has to be, or too much, is left out and counted. kept are the
// names of the artifacts that exist, leftOut is what did not get here, and mask hides the session's secrets.
func readShown(text []byte, kept map[string]bool, leftOut int, mask *secrets.Mask) (results []job.Shown, left int, exception *job.Exception) {
	left = leftOut
	room := job.InlineShownTotal
	for line := range bytes.Lines(text) {
		var said shownLine
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &said) != nil {
			left++
			continue
		}
		said.mask(mask)
		if e := said.Exception; e != nil {
			exception = &job.Exception{
				Name: head(e.Name, job.MaxExceptionName), Value: head(e.Value, job.MaxExceptionValue), Traceback: head(e.Traceback, job.MaxTraceback),
			}
		}
		left += min(max(said.LeftOut, 0), 1<<20)
		if said.Kind == "" {
			continue
		}
		if said.Kind != job.ShownValue && said.Kind != job.ShownDisplay || len(results) == job.MaxShown || len(said.Data) > job.MaxMediaTypes {
			left++
			continue
		}
		results = append(results, checkShown(said.Shown, kept, &room))
	}
	return results, left, exception
}

// mask hides secrets in all that is text.
func (l *shownLine) mask(m *secrets.Mask) {
	if m == nil {
		return
	}
	l.Note = m.Text(l.Note)
	for name, d := range l.Data {
		d.Text = m.Text(d.Text)
		l.Data[name] = d
	}
	if e := l.Exception; e != nil {
		e.Name, e.Value, e.Traceback = m.Text(e.Name), m.Text(e.Value), m.Text(e.Traceback)
	}
}

// checkShown returns the result with what it may have. room is how many bytes of text there may still be.
func checkShown(said job.Shown, kept map[string]bool, room *int) job.Shown {
	r := job.Shown{Kind: said.Kind, Data: map[string]job.Rendering{}}
	notes := []string{}
	if said.Note != "" {
		notes = append(notes, said.Note)
	}
	for _, name := range slices.Sorted(maps.Keys(said.Data)) {
		d := said.Data[name]
		switch {
		case !job.ValidMediaType(name):
			notes = append(notes, "what has no media type is left out")
		case d.Artifact != "" && !kept[d.Artifact]:
			notes = append(notes, fmt.Sprintf("%s: its file is not kept", name))
		case d.Artifact != "":
			r.Data[name] = d
		case len(d.Text) > job.InlineShown || len(d.Text) > *room:
			notes = append(notes, fmt.Sprintf("%s: too long", name))
		default:
			*room -= len(d.Text)
			r.Data[name] = d
		}
	}
	r.Note = head(strings.Join(notes, "; "), job.MaxShownNote)
	return r
}

// head returns at most so many bytes of s, whole characters only.
func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
