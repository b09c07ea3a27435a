package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
	"github.com/glovebox-run/glovebox/job"
)

func (a *app) problemSourcesCommand() *cobra.Command {
	var problem string
	cmd := &cobra.Command{
		Use:   "sources DIR SUBMISSION…",
		Short: "Write submissions as plagiarism detectors read them",
		Long: `Write each SUBMISSION, a file or a folder, into the new folder DIR as tools that compare
programs read them: JPlag, MOSS, Dolos. Nothing is compared, and nothing leaves this machine.

  DIR/submissions/AUTHOR/   the sources of one submission. AUTHOR is the name of its folder, or of
                            its file without the ending
  DIR/base/                 what the problem gives to everybody (its include/), not to be compared
  DIR/info.csv              all files, with their authors' full names, for Dolos

Sources are text in UTF-8 without NULs, with \n at the ends of lines and no blanks before them.
Left out are files that are no text (a warning names them), files that the problem gives, and
files whose names begin with a dot.`,
		Example: `  glovebox problem sources --problem sum compared class/*
  jplag -l python3 -bc compared/base compared/submissions
  moss -l python -d compared/submissions/*/*.py
  cd compared && dolos run -l python info.csv`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("DIR and a SUBMISSION are wanted: glovebox problem sources DIR SUBMISSION…")
			}
			return a.writeSources(args[0], problem, args[1:])
		},
	}
	cmd.Flags().StringVarP(&problem, "problem", "p", "", "`DIR` of the problem, whose include/ is left out of submissions")
	return cmd
}

// sourceFile is a file of a submission, made comparable.
type sourceFile struct {
	author, fullName string
	name             string // below the author's folder
	text             []byte
}

func (a *app) writeSources(dir, problem string, submissions []string) error {
	base, err := givenSources(problem)
	if err != nil {
		return err
	}
	var authors []string
	of := map[string]string{} // which submission is an author's
	for _, path := range submissions {
		author, err := authorOf(path)
		if err != nil {
			return err
		}
		if other := of[author]; other != "" {
			return usagef("%s and %s are both of %s: give one submission of each author", other, path, author)
		}
		of[author] = path
		authors = append(authors, author)
		if _, err := os.Lstat(path); err != nil { // it is no submission
			return &failure{code: exitUsage, err: err}
		}
	}
	var files []sourceFile
	var unread error // the first
	folders := newToolNames()
	written := 0
	for i, path := range submissions {
		program, err := a.readProgram(path) // one at a time: what is no source may be large
		if err != nil {
			unread = cmp.Or(unread, err)
			fmt.Fprintf(a.stderr, "warning: %s: %s: it is left out\n", plain(path), plain(strings.TrimPrefix(err.Error(), path+": ")))
			continue
		}
		written++
		found, noText, err := comparableFiles(program.Files, base)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, name := range noText {
			fmt.Fprintf(a.stderr, "warning: %s: %s is no text: it is left out\n", plain(path), plain(name))
		}
		if len(found) == 0 {
			fmt.Fprintf(a.stderr, "warning: %s has nothing to compare\n", plain(path))
		}
		folder := folders.add(authors[i])
		for _, f := range found {
			f.author, f.fullName = folder, authors[i]
			files = append(files, f)
		}
	}
	if written == 0 {
		return unread
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return usagef("%s is there already; want the name of a new folder", dir)
		}
		return &failure{code: exitUsage, err: err}
	}
	if err := writeSourcesTo(dir, base, files); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	fmt.Fprintf(a.stderr, "%s is there: %d files of %d submissions\n", dir, len(files), written)
	return nil
}

// givenSources are what a problem puts over submissions; nothing without a problem.
func givenSources(problem string) ([]sourceFile, error) {
	if problem == "" {
		return nil, nil
	}
	p, closer, err := openProblem(problem)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	var base []sourceFile
	for language, given := range p.Includes {
		found, _, err := comparableFiles(given, nil)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			f.name = language + "/" + f.name
			base = append(base, f)
		}
	}
	return base, nil
}

var notInToolNames = regexp.MustCompile(`[^a-zA-Z0-9_.-]+`)

// toolName is a name of one file or folder as every tool takes it: no blanks, nothing that is read as an option; "" if
// nothing is left.
func toolName(name string) string {
	return strings.TrimLeft(notInToolNames.ReplaceAllString(name, "_"), ".-")
}

// authorOf is who a submission is of, as its name says.
func authorOf(submission string) (string, error) {
	abs, err := filepath.Abs(submission)
	if err != nil {
		return "", err
	}
	author := filepath.Base(abs)
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		author = strings.TrimSuffix(author, filepath.Ext(author))
	}
	if toolName(author) == "" || author == "/" || !utf8.ValidString(author) {
		return "", usagef("%s: want a submission whose name says who its author is", submission)
	}
	return author, nil
}

// comparableFiles are those of a program's files that can be compared, as they are to be; without those that are given. NoText are the
// names of those that are not empty and yet no text.
func comparableFiles(files []job.File, given []sourceFile) (found []sourceFile, noText []string, err error) {
	names := newToolNames()
	for _, f := range files {
		content, err := f.Bytes()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if problem := job.CheckName(f.Name); problem != "" {
			return nil, nil, usagef("the name %q %s", f.Name, problem)
		}
		if kattis.LanguageOf([]string{f.Name}) != "" { // compilers take NULs in comments
			content = bytes.ReplaceAll(content, []byte{0}, nil)
		}
		text, ok := normalized(content)
		if !ok && len(content) > 0 {
			noText = append(noText, f.Name)
		}
		isGiven := func(g sourceFile) bool {
			return path.Base(g.name) == path.Base(f.Name) && bytes.Equal(g.text, text)
		}
		if ok && !slices.ContainsFunc(given, isGiven) {
			found = append(found, sourceFile{name: names.add(f.Name), text: text})
		}
	}
	return found, noText, nil
}

// toolNames are the names that files have already, as every tool takes them.
type toolNames struct {
	taken map[string]bool // with the folders that files are in: whether it is a file's
	last  map[string]int  // the last number before a name
}

func newToolNames() toolNames { return toolNames{map[string]bool{}, map[string]int{}} }

// add returns a file's name as every tool takes it, and none of those that others have already.
func (t toolNames) add(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = cmp.Or(toolName(part), "_")
	}
	free, flat := strings.Join(parts, "/"), strings.Join(parts, "_")
	for t.has(free) {
		t.last[flat] = max(t.last[flat], 1) + 1
		free = fmt.Sprintf("%d_%s", t.last[flat], flat)
	}
	for dir := path.Dir(free); dir != "."; dir = path.Dir(dir) {
		t.taken[dir] = false
	}
	t.taken[free] = true
	return free
}

// has reports whether no other file can have that name.
func (t toolNames) has(name string) bool {
	_, taken := t.taken[name]
	for dir := path.Dir(name); dir != "." && !taken; dir = path.Dir(dir) {
		taken = t.taken[dir]
	}
	return taken
}

// normalized is a source as UTF-8 without a mark at its beginning, lines that end in \n and not in blanks; ok is false for
// what is no text. What is no UTF-8 is taken as Latin-1.
func normalized(content []byte) (text []byte, ok bool) {
	if bytes.IndexByte(content, 0) >= 0 || len(content) == 0 {
		return nil, false
	}
	content = bytes.TrimPrefix(content, []byte("\uFEFF"))
	if !utf8.Valid(content) {
		runes := make([]rune, len(content))
		for i, b := range content {
			runes[i] = rune(b)
		}
		content = []byte(string(runes))
	}
	content = bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
	content = bytes.ReplaceAll(content, []byte("\r"), []byte("\n"))
	for line := range bytes.Lines(content) {
		text = append(append(text, bytes.TrimRight(line, " \t\v\f\n")...), '\n')
	}
	return text, true
}

// writeSourcesTo writes files into a folder that is there. Their names are known to stay in it.
func writeSourcesTo(dir string, base, files []sourceFile) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	write := func(name string, text []byte) error {
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return err
		}
		return root.WriteFile(name, text, 0o666)
	}
	for _, f := range base {
		if err := write("base/"+f.name, f.text); err != nil {
			return err
		}
	}
	var info bytes.Buffer
	w := csv.NewWriter(&info)
	if err := w.Write([]string{"filename", "full_name"}); err != nil {
		return err
	}
	for _, f := range files {
		name := "submissions/" + f.author + "/" + f.name
		if err := write(name, f.text); err != nil {
			return err
		}
		if err := w.Write([]string{name, f.fullName}); err != nil {
			return err
		}
	}
	if w.Flush(); w.Error() != nil {
		return w.Error()
	}
	return write("info.csv", info.Bytes())
}
