package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// FilesLanguage is the language, of every session's main context, of executions that look at the session's files or change them. Their code is a
// [FileCommand]; the interpreter doesn't see it, and nothing of the session runs meanwhile.
const FilesLanguage = "files"

// What a [FileCommand] does.
const (
	ListFiles     = "list"   // prints a [FileList]
	ReadFile      = "read"   // makes the file an artifact of the execution
	DeleteFile    = "delete" // also a link itself, or a directory that is empty
	MakeDirectory = "mkdir"  // and those above it
)

// FileCommand is the code of an execution in [FilesLanguage]. It has the rights of the session's code, and follows no link.
type FileCommand struct {
	Do string `json:"do"`
	// Name is below the session's directory; "" is that itself, which can be listed only.
	Name string `json:"name,omitempty"`
	// After is the Next of the page before.
	After string `json:"after,omitempty"`
}

// Code is the command as code of an execution.
func (c FileCommand) Code() string {
	b, _ := Marshal(c) // three texts
	return string(b)
}

// ParseFileCommand reads one. It fails with [Invalid].
func ParseFileCommand(code string) (c FileCommand, err error) {
	wrong := func(value any, message, allowed string) (FileCommand, error) {
		return FileCommand{}, Invalid{{"code", value, message, allowed}}
	}
	d := json.NewDecoder(strings.NewReader(code))
	d.DisallowUnknownFields()
	err = d.Decode(&c)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something behind it")
		}
	}
	all := []string{ListFiles, ReadFile, DeleteFile, MakeDirectory}
	switch problem := CheckName(c.Name); {
	case err != nil || !slices.Contains(all, c.Do):
		return wrong(clip(code), "is no command for files", `{"do": …, "name": …} with do one of `+strings.Join(all, ", "))
	case problem != "" && (c.Do != ListFiles || c.Name != ""):
		return wrong(clip(c.Name), "names a file whose name "+problem, "a name below the session's directory")
	case c.After != "" && c.Do != ListFiles:
		return wrong(clip(c.After), "has a page, which only a list has", "after with list")
	}
	return c, nil
}

// FileList is a page of what a directory of a session holds.
type FileList struct {
	Files []FileEntry `json:"files" nullable:"false" doc:"By name, byte by byte."`
	Next  string      `json:"next_cursor,omitempty" doc:"Where the next page begins; absent on the last."`
}

// FileEntry is something in a directory of a session. All of it is the word of the session's code.
type FileEntry struct {
	Name string `json:"name" doc:"Within the directory."`
	Kind string `json:"kind" enum:"file,directory,link,fifo,socket,device,unknown"`
	Size int64  `json:"size,omitempty" doc:"Bytes of a file."`
	// Problem is why it can't be asked for, or "".
	Problem string `json:"problem,omitempty" doc:"Why it can't be read, though it is a file, or can't be named."`
}

// MaxFileList bounds the entries of one [FileList].
const MaxFileList = 500

// ParseFileList reads what an execution has printed. It is the sandbox's word: bounded, and of kinds that are known.
func ParseFileList(printed string) (FileList, error) {
	var l FileList
	d := json.NewDecoder(bytes.NewReader([]byte(printed)))
	if err := d.Decode(&l); err != nil {
		return FileList{}, fmt.Errorf("read list of files: %w", err)
	}
	if len(l.Files) > MaxFileList {
		return FileList{}, fmt.Errorf("read list of files: it has %d entries", len(l.Files))
	}
	if l.Files == nil {
		l.Files = []FileEntry{}
	}
	for i, f := range l.Files {
		if f.Size < 0 || !slices.Contains(fileKinds, f.Kind) {
			return FileList{}, fmt.Errorf("read list of files: %.40q is of kind %.20q and has %d bytes", f.Name, f.Kind, f.Size)
		}
		l.Files[i].Problem = Clip(f.Problem, 200)
	}
	return l, nil
}

var fileKinds = []string{"file", "directory", "link", "fifo", "socket", "device", "unknown"}

// FileError is why an execution in [FilesLanguage] did not do what it was to, or nil: an [*Error] of code no_file, file_refused, too_large, session_ended or timeout.
func FileError(r Result) error {
	if r.Status == Succeeded {
		return nil
	}
	code, message, coded := strings.Cut(strings.TrimSpace(r.Stderr), ": ")
	switch {
	case r.Error != nil && (r.Error.Code == CodeSessionEnded || r.Error.Code == CodeSessionLost):
		return &Error{CodeSessionEnded, r.Error.Message}
	case r.Error != nil:
		return &Error{CodeFileRefused, r.Error.Message}
	case r.Status == TimedOut:
		return &Error{CodeFileRefused, "it took longer than the session's wall_ms"}
	case r.Status == Failed && coded && slices.Contains([]string{CodeNoFile, CodeFileRefused, CodeTooLarge}, code):
		return &Error{code, Clip(message, 1000)}
	case r.Status == Failed && r.Stderr != "":
		return &Error{CodeFileRefused, Clip(strings.TrimSpace(r.Stderr), 1000)}
	}
	return &Error{CodeFileRefused, "it was not done: the execution is " + string(r.Status)}
}
