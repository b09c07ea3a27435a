// Package chartdata finds in a picture's file, as it passes by, what the picture shows.
//
// Glovebox's Python has matplotlib write it there: in a PNG as a tEXt chunk named glovebox:chart, in an SVG as the description in its
// metadata, after the words "glovebox:chart ". Both stand before what is drawn. A program can write anything there, as it can draw anything.
// So what is read is bounded, parsed as a [job.Chart], written anew, and nothing is concluded from it.
package chartdata

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/glovebox-run/glovebox/job"
)

// keyword names the data, in either format.
const keyword = "glovebox:chart"

// maxHead is how much of a file is kept until its data have come: them, and what a picture says of itself before them.
const maxHead = job.MaxChart + 16<<10

// finder looks for the data in a file of which head has come. It is asked again, with more, until it is done.
type finder interface {
	// find returns the data once they are there, and whether it is done: there are none then, or these.
	find(head []byte) (data []byte, done bool)
}

// Reader reads a file for somebody else, and keeps what it says of its chart.
type Reader struct {
	r      io.Reader
	finder finder // nil before the format is known
	head   []byte // nil once it is done
	data   []byte
	done   bool
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Read reads from the file.
func (c *Reader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if !c.done && n > 0 {
		c.take(p[:n])
	}
	return n, err
}

func (c *Reader) take(p []byte) {
	c.head = append(c.head, p[:min(len(p), maxHead-len(c.head))]...)
	if c.finder == nil {
		if c.finder, c.done = formatOf(c.head); c.finder == nil {
			c.finish(nil, c.done)
			return
		}
	}
	data, done := c.finder.find(c.head)
	c.finish(data, done || len(c.head) == maxHead)
}

func (c *Reader) finish(data []byte, done bool) {
	if c.done = done; done {
		c.data, c.head = data, nil
	}
}

// Chart returns what the file says of its chart, and that as JSON; nil where it says nothing. It is called when all was read.
func (c *Reader) Chart() (job.Chart, json.RawMessage, error) {
	if c.data == nil {
		return job.Chart{}, nil, nil
	}
	chart, err := job.ParseChart(c.data)
	if err != nil {
		return job.Chart{}, nil, err
	}
	text, err := job.Marshal(chart)
	if err != nil {
		return job.Chart{}, nil, fmt.Errorf("encode chart: %w", err)
	}
	return chart, text, nil
}

// formatOf returns what looks for the data in a file that begins so; done where it is no picture.
func formatOf(head []byte) (f finder, done bool) {
	switch {
	case begins(head, pngSignature):
		return &pngFinder{next: len(pngSignature)}, false
	case begins(head, svgBegin), begins(head, xmlBegin):
		return &svgFinder{}, false
	}
	return nil, len(head) >= len(pngSignature)
}

func begins(head []byte, with string) bool {
	return len(head) >= len(with) && string(head[:len(with)]) == with
}
