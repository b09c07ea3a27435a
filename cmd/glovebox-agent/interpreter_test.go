package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// spoken has an interpreter say words in one turn, in which TOKEN stands for its token, and returns what is shown, whether it masks
// interrupts, and the exit code; -1 if none came.
func spoken(t *testing.T, words ...string) (text string, masked bool, code int, s *shown) {
	t.Helper()
	ours, theirs, err := newControl()
	if err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	s = &shown{send: func(p []byte) error { _, err := sent.Write(p); return err }}
	i := newInterpreter(ours)
	answer := i.hear(i.tell(nil), s)
	token, err := bufio.NewReader(theirs).ReadString(0)
	token, _, isLine := strings.Cut(token, "\n")
	if err != nil || !isLine {
		t.Fatalf("got %q, %v", token, err)
	}
	said := make(chan error, 1)
	go func() {
		for _, word := range words {
			if _, err := io.WriteString(theirs, strings.ReplaceAll(word, "TOKEN", token)); err != nil {
				said <- err
				return
			}
		}
		said <- theirs.Close()
	}()
	code, ok := <-answer
	if !ok {
		code = -1
	}
	i.finish(true) // what is said after the answer is not read
	if err := <-said; err != nil && code < 0 {
		t.Fatal(err)
	}
	return sent.String(), i.masked.Load(), code, s
}

// TestInterpreterWords: what an interpreter says with its token is passed on, a line each, within the bounds; the rest is counted, or dropped where it is no
// word of the turn's.
func TestInterpreterWords(t *testing.T) {
	t.Parallel()
	long := "{" + strings.Repeat("x", agentwire.MaxShown) + "}"
	half := strings.Repeat("y", agentwire.MaxShown/2)
	for name, c := range map[string]struct {
		words   []string
		text    string
		code    int
		leftOut int
		masked  bool
	}{
		"an answer":           {words: []string{"\x00TOKEN 3\x00"}, code: 3},
		"results":             {words: []string{"\x00TOKEN {\"a\":1}\x00\x00TOKEN {}\x00", "\x00TOKEN 0\x00"}, text: "{\"a\":1}\n{}\n"},
		"a mask":              {words: []string{"\x00TOKEN mask\x00\x00TOKEN mask\x00", "\x00TOKEN 130\x00"}, code: 130, masked: true},
		"no mask any more":    {words: []string{"\x00TOKEN mask\x00\x00TOKEN unmask\x00", "\x00TOKEN 0\x00"}},
		"a mask, no token":    {words: []string{"\x00 mask\x00", "\x00TOKEN 0\x00"}, masked: true},
		"another signal":      {words: []string{"\x00TOKEN mask\x00\x00TOKEN unmask 64\x00", "\x00TOKEN 0\x00"}},
		"no such signal":      {words: []string{"\x00TOKEN mask\x00\x00TOKEN unmask 65\x00", "\x00TOKEN 0\x00"}, text: "unmask 65\n", masked: true},
		"another's mask":      {words: []string{"\x00OTHER mask\x00", "\x00TOKEN 1\x00"}, code: 1},
		"another's":           {words: []string{"\x00OTHER {}\x00\x00OTHER 1\x00noise\x00", "\x00TOKEN 2\x00"}, code: 2},
		"more than one line":  {words: []string{"\x00TOKEN {\n}\x00", "\x00TOKEN 0\x00"}, leftOut: 1},
		"no exit code":        {words: []string{"\x00TOKEN 256\x00\x00TOKEN -1\x00", "\x00TOKEN 1\x00"}, text: "256\n-1\n", code: 1},
		"empty":               {words: []string{"\x00TOKEN \x00", "\x00TOKEN 0\x00"}, leftOut: 1},
		"too long":            {words: []string{"\x00TOKEN " + long + "\x00", "\x00TOKEN {}\x00", "\x00TOKEN 0\x00"}, text: "{}\n", leftOut: 1},
		"too much in all":     {words: []string{"\x00TOKEN " + half + "\x00", "\x00TOKEN " + half + "\x00", "\x00TOKEN 0\x00"}, text: half + "\n", leftOut: 1},
		"too many":            {words: []string{strings.Repeat("\x00TOKEN {}\x00", job.MaxShown+11), "\x00TOKEN 0\x00"}, text: strings.Repeat("{}\n", job.MaxShown+1), leftOut: 10},
		"an end without word": {words: []string{"\x00TOKEN {}"}, code: -1},
		"long noise":          {words: []string{strings.Repeat("n", 3<<20), "\x00TOKEN 0\x00"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, masked, code, s := spoken(t, c.words...)
			if text != c.text || masked != c.masked || code != c.code || s.leftOut != c.leftOut {
				t.Errorf("got %.100q, %d and %d left out, want %.100q, %d and %d", text, code, s.leftOut, c.text, c.code, c.leftOut)
			}
		})
	}
}

// TestShownIsCountedSoFar: who shows without an end is not counted without an end, and what is passed on waits for whoever takes it.
func TestShownIsCountedSoFar(t *testing.T) {
	t.Parallel()
	s := &shown{send: func([]byte) error { return nil }}
	for range maxLeftOut + job.MaxShown + 10 {
		if err := s.add([]byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if s.leftOut != maxLeftOut {
		t.Errorf("counted %d", s.leftOut)
	}
	gone := errors.New("nobody takes it")
	s = &shown{send: func([]byte) error { return gone }}
	if err := s.add([]byte("{}")); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

// TestInterpreterWordIsBounded: of a word without end no more is held than of the longest that is passed on.
func TestInterpreterWordIsBounded(t *testing.T) {
	t.Parallel()
	i := &interpreter{answers: bufio.NewReader(strings.NewReader("T " + strings.Repeat("x", 8<<20) + "\x00next\x00"))}
	word, err := i.nextWord("T ")
	if err != nil || len(word) != maxWord {
		t.Fatalf("got a word of %d bytes, %v", len(word), err)
	}
	if word, err = i.nextWord("n"); err != nil || string(word) != "next" {
		t.Errorf("got %q, %v", word, err)
	}
}
