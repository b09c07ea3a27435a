package main

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/term"
)

// console reads lines from a terminal that somebody types at. It is in raw mode only while it reads one, so that
// Ctrl-C is a signal while code runs.
type console struct {
	in       *os.File
	terminal *term.Terminal
	keys     *keys
}

// openConsole fails with what to use instead where nobody types.
func (a *app) openConsole() (*console, error) {
	in, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || !isTerminal(a.stdout) {
		return nil, usagef(`"repl" is for a terminal; to execute what is piped: glovebox session exec ID -`)
	}
	k := &keys{from: in}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, a.stdout}, "")
	t.AutoCompleteCallback = fourSpaces
	return &console{in: in, terminal: t, keys: k}, nil
}

// remember has the terminal bring back what h has, and keep there what is typed.
func (c *console) remember(h *history) { c.terminal.History = h }

func (c *console) ReadLine(ctx context.Context, prompt string) (line string, pasted bool, err error) {
	before, err := term.MakeRaw(int(c.in.Fd()))
	if err != nil {
		return "", false, err
	}
	c.terminal.SetBracketedPasteMode(true)
	defer func() {
		c.terminal.SetBracketedPasteMode(false)
		err = errors.Join(err, term.Restore(int(c.in.Fd()), before))
	}()
	if width, height, err := term.GetSize(int(c.in.Fd())); err == nil && width > 0 { // 0: nobody knows
		_ = c.terminal.SetSize(width, height) // it fails where the terminal can't be written to, as reading then does
	}
	c.terminal.SetPrompt(prompt)
	c.keys.cleared = false
	type typed struct {
		line string
		err  error
	}
	read := make(chan typed, 1)
	go func() { // a read from a terminal ends with the line only
		line, err := c.terminal.ReadLine()
		read <- typed{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", false, ctx.Err()
	case t := <-read:
		switch {
		case errors.Is(t.err, term.ErrPasteIndicator):
			return t.line, true, nil
		case t.err == nil && c.keys.cleared:
			return "", false, errCleared
		}
		return t.line, false, t.err
	}
}

// keys are what is typed. The terminal takes Ctrl-C for the end of everything; here it gives the line up.
type keys struct {
	from    io.Reader
	waiting []byte
	cleared bool
}

const (
	ctrlC   = 3
	toEnd   = 5  // Ctrl-E
	eraseIt = 21 // Ctrl-U: what is before the cursor
)

func (k *keys) Read(p []byte) (int, error) {
	if len(k.waiting) == 0 {
		some := make([]byte, 64)
		n, err := k.from.Read(some)
		if n == 0 {
			return 0, err
		}
		for _, key := range some[:n] {
			if key != ctrlC {
				k.waiting = append(k.waiting, key)
				continue
			}
			k.cleared = true
			k.waiting = append(k.waiting[:0], toEnd, eraseIt, '\r')
		}
	}
	n := copy(p, k.waiting)
	k.waiting = k.waiting[n:]
	return n, nil
}

// fourSpaces are what Tab means.
func fourSpaces(line string, at int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	return line[:at] + "    " + line[at:], at + 4, true
}
