package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/sessionfiles"
)

// maxFileText is how long a file's text may be that an answer holds itself, in bytes.
const maxFileText = 32 << 10

// fileInput is the schema of a tool about one file of a session; more is what it takes besides.
func fileInput(more map[string]any, required ...string) json.RawMessage {
	properties := map[string]any{
		"session_id": map[string]any{"type": "string", "description": "The session_id that run_code answered."},
		"path":       map[string]any{"type": "string", "description": "A relative path in the session's working directory, such as data/in.csv."},
	}
	for name, schema := range more {
		properties[name] = schema
	}
	input, _ := json.Marshal(map[string]any{ // of what can be written as JSON
		"type": "object", "additionalProperties": false, "required": append([]string{"session_id", "path"}, required...), "properties": properties,
	})
	return input
}

// readFile is the tool that reads a file of a session.
func readFile() Tool {
	return Tool{
		Name: ReadFile, Title: "Read a file",
		Description: "Reads a file of a session: text of up to 32 KiB and small images are in the answer, anything else is a link. It waits until the session has executed what it was given before.",
		Scopes:      []job.Scope{job.ScopeSubmit, job.ScopeRead},
		Input:       fileInput(nil), textOnly: true,
		call: func(ctx context.Context, c Caller, arguments []byte) (Answer, error) {
			in, err := decode[struct {
				SessionID string `json:"session_id"`
				Path      string `json:"path"`
			}](arguments)
			if err != nil {
				return Answer{}, err
			}
			if problem := job.CheckName(in.Path); problem != "" {
				return Answer{}, argumentError("path: " + problem)
			}
			waiting, done := context.WithTimeout(ctx, c.MaxWait)
			defer done()
			id, f, err := sessionfiles.Read(waiting, c.Glovebox, in.SessionID, in.Path)
			if err != nil {
				return Answer{}, err
			}
			a := Answer{JobID: id, SessionID: in.SessionID}
			a.Content, err = c.fileContent(ctx, id, f)
			return a, err
		},
	}
}

// fileContent is what an answer has of a file: its text or picture, if it is small, else a link.
func (c Caller) fileContent(ctx context.Context, id string, f job.Artifact) ([]Content, error) {
	if f.Size == 0 {
		return []Content{{Type: "text", Text: f.Name + " is empty.\n"}}, nil
	}
	if isImage(f) {
		if b, err := c.readImage(ctx, id, f); err == nil {
			return []Content{{Type: "text", Text: fmt.Sprintf("%s is an image of %d bytes.\n", f.Name, f.Size)}, {Type: "image", Data: b, MediaType: f.MediaType, Name: f.Name}}, nil
		}
	}
	if f.Size <= maxFileText {
		d, err := c.Glovebox.Open(ctx, id, producer.ArtifactPath(f.Name))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		b := make([]byte, f.Size)
		if _, err := io.ReadFull(d, b); err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name, err)
		}
		if utf8.Valid(b) {
			return []Content{{Type: "text", Text: string(b)}}, nil
		}
	}
	told := []Content{{Type: "text", Text: fmt.Sprintf("%s has %d bytes (%s), and is no text, or too long for an answer: have code of the session look at it.\n", f.Name, f.Size, f.MediaType)}}
	if f.URL != "" {
		told = append(told, Content{Type: "link", Name: f.Name, MediaType: f.MediaType, Size: f.Size, URL: f.URL})
	}
	return told, nil
}

// writeFile is the tool that writes a file of a session.
func writeFile() Tool {
	return Tool{
		Name: WriteFile, Title: "Write a file",
		Description: "Writes text to a file of a session, in the place of what has its name, and makes the directories above it. It waits until the session has executed what it was given before.",
		Scopes:      []job.Scope{job.ScopeSubmit},
		Input:       fileInput(map[string]any{"content": map[string]any{"type": "string", "description": "The file's whole text."}}, "content"), textOnly: true, destructive: true,
		call: func(ctx context.Context, c Caller, arguments []byte) (Answer, error) {
			in, err := decode[struct {
				SessionID string  `json:"session_id"`
				Path      string  `json:"path"`
				Content   *string `json:"content"`
			}](arguments)
			if err != nil {
				return Answer{}, err
			}
			if in.Content == nil {
				return Answer{}, argumentError("content: is missing; want the file's text, which may be empty")
			}
			if problem := job.CheckName(in.Path); problem != "" {
				return Answer{}, argumentError("path: " + problem)
			}
			waiting, done := context.WithTimeout(ctx, c.MaxWait)
			defer done()
			file, err := c.Glovebox.InputFile(waiting, in.Path, []byte(*in.Content))
			if err != nil {
				return Answer{}, err
			}
			if err := sessionfiles.Put(waiting, c.Glovebox, in.SessionID, file); err != nil {
				return Answer{}, err
			}
			return Answer{SessionID: in.SessionID, Content: []Content{{Type: "text", Text: fmt.Sprintf("%s is written, %d bytes.\n", in.Path, len(*in.Content))}}}, nil
		},
	}
}
