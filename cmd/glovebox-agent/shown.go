package main

import (
	"bytes"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// maxWord is longer than any word of an interpreter that is passed on.
const maxWord = agentwire.MaxShown + 128

// shown passes on what an interpreter shows in one turn, within bounds. What it says is not looked at: the worker does that.
type shown struct {
	send  func([]byte) error
	words int
	bytes int
	// leftOut is how many words more there were.
	leftOut int
}

// add passes a word on, if there is room for it: in a line, one of [job.MaxShown] and one that ends them. It waits as long as the worker lets it.
func (s *shown) add(word []byte) error {
	if len(word) == 0 || bytes.IndexByte(word, '\n') >= 0 || s.words > job.MaxShown || s.bytes+len(word)+1 > agentwire.MaxShown {
		if s.leftOut < maxLeftOut {
			s.leftOut++
		}
		return nil
	}
	s.words++
	s.bytes += len(word) + 1
	return s.send(append(word, '\n'))
}

// maxLeftOut is as far as is counted.
const maxLeftOut = 1 << 20
