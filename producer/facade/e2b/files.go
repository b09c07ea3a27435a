package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// home is where E2B's clients think that their files are. In our sandboxes it is the session's directory.
const home = "/home/user"

// maxPath is how long a path may be, in bytes: Linux's PATH_MAX.
const maxPath = 4096

// absolute is a path as it is meant.
func absolute(name string) (string, error) {
	if len(name) > maxPath {
		return "", facade.BadRequest(fmt.Sprintf("path has %d bytes: want up to %d", len(name), maxPath))
	}
	if strings.ContainsRune(name, 0) || name == "" || !utf8.ValidString(name) {
		return "", facade.BadRequest("path is missing, has a NUL, or is not UTF-8")
	}
	if name == "~" || strings.HasPrefix(name, "~/") {
		name = home + name[1:]
	}
	if !path.IsAbs(name) {
		name = home + "/" + name
	}
	return path.Clean(name), nil
}

// ours is the name that a session's files have of a path below home; ok is false for any other.
func ours(name string) (of string, ok bool) {
	for _, dir := range []string{home, "/work"} {
		if below, found := strings.CutPrefix(name, dir+"/"); found {
			return below, job.CheckName(below) == ""
		}
	}
	return "", false
}

// readFile answers what a file holds.
func readFile(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	x, err := sandboxOf(ctx, r, c)
	if err == nil {
		err = c.Host.May(job.ScopeRead)
	}
	if err == nil {
		err = signedURL(r)
	}
	name := ""
	if err == nil {
		name, err = absolute(r.URL.Query().Get("path"))
	}
	if err != nil {
		fail(w, r, c, err)
		return
	}
	result, err := errand{"do": "read", "path": name, "most": x.Limits.OutputKB << 10}.does(ctx, w, c, x, nil)
	if err != nil {
		failFile(w, r, c, err)
		return
	}
	if err := sendStream(ctx, w, c, result, path.Base(name)); err != nil {
		failFile(w, r, c, err)
	}
}

// sendStream answers what an errand printed. It returns an error before anything was sent only; later it ends the connection.
func sendStream(ctx context.Context, w http.ResponseWriter, c *facade.Call, result job.Result, name string) error {
	f, size, err := c.Stream(ctx, result, producer.Stdout)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkPrinted(result, size); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(fileTime)) // else the connection is gone
	if _, err := io.Copy(w, f); err != nil {
		panic(http.ErrAbortHandler) // half a file must not look like a whole one
	}
	return nil
}

// fileTime is what sending a file may take.
const fileTime = 5 * time.Minute

// signedURL fails for a URL that is to be good without a token.
func signedURL(r *http.Request) error {
	if r.URL.Query().Has("signature") {
		return statusError{http.StatusNotImplemented, "signed URLs of files are not known here: send the sandbox's token"}
	}
	return nil
}

// failFile answers what went wrong with a file.
func failFile(w http.ResponseWriter, r *http.Request, c *facade.Call, err error) {
	var said callError
	if !errors.As(err, &said) {
		fail(w, r, c, err)
		return
	}
	status := statusOfCode[said.Code]
	if said.Code == "resource_exhausted" { // not that there were too many requests
		status = http.StatusInsufficientStorage
	}
	writeFault(w, status, said.Message)
}

// sentFile is a file that a client writes.
type sentFile struct {
	name    string // absolute
	content []byte
}

// written is what a client is told of one.
type written struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Path string `json:"path"`
}

// writeFiles puts files into a sandbox.
func writeFiles(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	x, err := sandboxOf(ctx, r, c)
	if err == nil {
		err = signedURL(r)
	}
	var sent []sentFile
	var done func()
	if err == nil {
		sent, done, err = readFiles(ctx, r, c)
	}
	var execution job.SessionExecution
	told := []written{}
	if err == nil {
		execution, err = putting(ctx, c, x, sent)
		for _, f := range sent {
			told = append(told, written{path.Base(f.name), "file", f.name})
		}
		done() // the execution has its turn when it has it
	}
	if err == nil {
		_, err = runErrand(ctx, w, c, x, execution)
	}
	if err != nil {
		failFile(w, r, c, err)
		return
	}
	facade.Write(w, http.StatusOK, told)
}

// readFiles reads what is sent: a form with a file in each part, or one as it is. What it takes is held until done, or where there
// is an error until the request is answered. It fails with a facade.BadRequest.
func readFiles(ctx context.Context, r *http.Request, c *facade.Call) (sent []sentFile, done func(), err error) {
	body, bodyDone, err := readBody(ctx, r, c, zippedFiles)
	if err != nil {
		return nil, nil, err
	}
	named := r.URL.Query().Get("path")
	mediaType, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != "multipart/form-data" {
		name, err := absolute(named)
		return []sentFile{{name, body}}, bodyDone, err
	}
	parts, err := c.Host.Work(ctx, int64(len(body))) // the parts once more
	if err != nil {
		return nil, nil, err
	}
	sent, err = partsOf(body, parameters["boundary"], named)
	return sent, func() { bodyDone(); parts() }, err
}

// partsOf are the files of a form. named is where the one file goes, or "".
func partsOf(body []byte, boundary, named string) (sent []sentFile, err error) {
	form, room := multipart.NewReader(bytes.NewReader(body), boundary), make([]byte, len(body))
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, facade.BadRequest("the body is not a form of files: " + job.Clip(err.Error(), 100))
		}
		if part.FormName() != "file" {
			continue
		}
		// The part's own name of it has no folders.
		_, disposition, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		name, err := absolute(disposition["filename"])
		if named != "" {
			name, err = absolute(named)
		}
		if err != nil {
			return nil, err
		}
		n, err := readPart(part, room)
		if err != nil {
			return nil, facade.BadRequest("the body is not a form of files: " + job.Clip(err.Error(), 100))
		}
		sent = append(sent, sentFile{name, room[:n:n]})
		if room = room[n:]; named != "" && len(sent) > 1 || len(sent) > mostFiles {
			return nil, facade.BadRequest(fmt.Sprintf("the form has too many files: want one with a path, or up to %d", mostFiles))
		}
	}
	if len(sent) == 0 {
		return nil, facade.BadRequest("the form has no part that is called file")
	}
	return sent, nil
}

// readPart reads a part into room, which has more than all parts that are left: it has what is between them, too.
func readPart(part io.Reader, room []byte) (n int, err error) {
	for n < len(room) {
		read, err := part.Read(room[n:])
		n += read
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, errors.New("it has no end")
}

// mostFiles is how many files may be written at once.
const mostFiles = 64

// putting is the execution that writes files: below home they are the session's, and go where they belong with it. Any other
// is put into a folder there, from which code takes it where it belongs.
func putting(ctx context.Context, c *facade.Call, x job.Session, sent []sentFile) (job.SessionExecution, error) {
	const folder = ".e2b"
	var files []job.File
	var moved [][2]string
	for i, f := range sent {
		name, ok := ours(f.name)
		if !ok {
			name = fmt.Sprintf("%s/%d", folder, i)
			moved = append(moved, [2]string{name, f.name})
		}
		file, err := c.Client.InputFile(ctx, name, f.content)
		if err != nil {
			return job.SessionExecution{}, err
		}
		files = append(files, file)
	}
	execution := job.SessionExecution{Metadata: map[string]string{"e2b": "write"}}
	if len(moved) > 0 {
		var err error
		if execution, err = (errand{"do": "place", "files": moved, "from": folder}).execution(x); err != nil {
			return execution, err
		}
		inEnvd(x, &execution)
	}
	execution.Files = files
	return execution, nil
}
