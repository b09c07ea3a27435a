package notebook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// MediaType is what notebooks are served as.
const MediaType = "application/x-ipynb+json"

// Source has a session, and the files that its executions made.
type Source interface {
	Session(ctx context.Context, id string) (job.Session, error)
	Transcript(ctx context.Context, session string) iter.Seq2[job.Executed, error]
	producer.Files
}

// Write writes a session as a notebook. It writes nothing before it has found the session; where it fails later, what it has written is no notebook.
func Write(ctx context.Context, w io.Writer, from Source, id string) error {
	x, err := from.Session(ctx, id)
	if err != nil {
		return err
	}
	b := book{w: w}
	for e, err := range from.Transcript(ctx, id) {
		if err != nil {
			return err
		}
		cells, err := cellsOf(ctx, from, e)
		if err != nil {
			return err
		}
		for _, c := range cells {
			if err := b.add(x, c); err != nil {
				return err
			}
		}
	}
	return b.end(x)
}

// book is a notebook that is being written.
type book struct {
	w     io.Writer
	cells int
}

func (b *book) add(x job.Session, c cell) error {
	if err := b.begin(x); err != nil {
		return err
	}
	text, err := job.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode cell: %w", err)
	}
	comma := ","
	if b.cells == 0 {
		comma = ""
	}
	b.cells++
	_, err = fmt.Fprintf(b.w, "%s\n%s", comma, text)
	return err
}

// begin writes all that comes before the first cell.
func (b *book) begin(x job.Session) error {
	if b.cells > 0 {
		return nil
	}
	head, err := json.Marshal(headOf(x))
	if err != nil {
		return fmt.Errorf("encode notebook: %w", err)
	}
	_, err = fmt.Fprintf(b.w, `{"nbformat":4,"nbformat_minor":5,"metadata":%s,"cells":[`, head)
	return err
}

func (b *book) end(x job.Session) error {
	if err := b.begin(x); err != nil {
		return err
	}
	_, err := io.WriteString(b.w, "\n]}\n")
	return err
}

// head is a notebook's metadata.
type head struct {
	Kernel   kernel   `json:"kernelspec"`
	Language language `json:"language_info"`
	Glovebox origin   `json:"glovebox"`
}

type kernel struct {
	Name    string `json:"name"`
	Display string `json:"display_name"`
}

type language struct {
	Name string `json:"name"`
}

type origin struct {
	Session string `json:"session"`
	Runtime string `json:"runtime"`
}

func headOf(x job.Session) head {
	h := head{Kernel: kernel{x.Runtime, x.Runtime}, Language: language{x.Runtime}, Glovebox: origin{x.ID, x.Runtime}}
	switch x.Runtime { // as Jupyter's own kernels are called
	case "python":
		h.Kernel = kernel{"python3", "Python 3"}
	case "node":
		h.Kernel, h.Language.Name = kernel{"javascript", "JavaScript (Node.js)"}, "javascript"
	}
	return h
}
