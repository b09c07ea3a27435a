package producer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

// Event is something that happened to a job, as those are told who watch it.
type Event struct {
	// ID is where to go on from here: [Watcher.Watch] tells what came after it. "" for an
	// event that says how things are rather than what happened.
	ID   string
	Type EventType
	// Status and Attempt are the job's, in an EventStatus.
	Status  job.Status
	Attempt int
	// Data is what the program wrote, in an EventStdout or EventStderr, Offset how many
	// bytes of the stream came before. Text is cut between characters only.
	Data   []byte
	Offset int64
	// Artifact is in an EventArtifact. It has no URL yet: the result has.
	Artifact job.Artifact
	// Shown is in an EventDisplay.
	Shown job.Shown
	// Compile is in an EventCompiled, with at most 32 KiB of its output: the result has all.
	Compile job.Compile
	// Job has ended, with its Result, in an EventResult.
	Job Job
}

// EventType says what happened.
type EventType string

// The types of events. Whoever reads them ignores types that it doesn't know.
const (
	// EventStatus comes first on each connection and on each change. When a job's worker is
	// lost the job is queued and runs again: its output begins anew, at Offset 0.
	EventStatus   EventType = "status"
	EventStdout   EventType = "stdout"
	EventStderr   EventType = "stderr"
	EventArtifact EventType = "artifact"
	// EventDisplay is a result of a session's execution. It comes when the execution has ended, and after its artifacts.
	EventDisplay EventType = "display"
	// EventCompiled says that the compile step has ended, before what the program prints. Without a compile step, and with tests, there is none.
	EventCompiled EventType = "compiled"
	// EventGap says that events were dropped before the next one: there were too many for
	// what is kept, or Redis was away. The result has all output.
	EventGap EventType = "gap"
	// EventResult is the last.
	EventResult EventType = "result"
)

// LastEvent is the ID of each EventResult: nothing comes after it.
const LastEvent = "end"

// CheckEventID fails with job.Invalid unless [Watcher.Watch] can go on after the event of that
// ID, or begin at the first one, which is "".
func CheckEventID(id string) error {
	if id == "" || id == LastEvent || job.ValidEventID(id) {
		return nil
	}
	return job.Invalid{{
		Field: "Last-Event-ID", Value: fmt.Sprintf("%.60s", id), Message: "is not the ID of an event",
		Allowed: "the id of the last event that was received, or nothing to begin at the first",
	}}
}

// The data of events as JSON.
type (
	// StatusEvent is the data of an EventStatus.
	StatusEvent struct {
		Status  job.Status `json:"status" doc:"What the job became."`
		Attempt int        `json:"attempt" doc:"How often it was begun. When it is begun again, output starts anew at offset 0."`
	}
	// OutputEvent is the data of an EventStdout and an EventStderr.
	OutputEvent struct {
		Offset int64  `json:"offset" doc:"Bytes of the stream before this."`
		Text   string `json:"text,omitempty" doc:"What the program wrote, cut between characters."`
		Base64 string `json:"base64,omitempty" doc:"Instead of text, what it wrote where that is not UTF-8."`
	}
	// GapEvent is the data of an EventGap.
	GapEvent struct{}
)

// MarshalData returns the event's data as the API sends it: JSON, in one line.
func (e Event) MarshalData() ([]byte, error) {
	var v any
	switch e.Type {
	case EventStatus:
		v = StatusEvent{e.Status, e.Attempt}
	case EventStdout, EventStderr:
		o := OutputEvent{Offset: e.Offset, Text: string(e.Data)}
		if !utf8.Valid(e.Data) {
			o.Text, o.Base64 = "", base64.StdEncoding.EncodeToString(e.Data)
		}
		v = o
	case EventArtifact:
		v = e.Artifact
	case EventDisplay:
		v = e.Shown
	case EventCompiled:
		v = e.Compile
	case EventGap:
		v = GapEvent{}
	case EventResult:
		v = e.Job
	default:
		return nil, fmt.Errorf("encode event: no data for type %q", e.Type)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // it is not read as HTML
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %s event: %w", e.Type, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// unmarshalData reads what MarshalData wrote. A type that is not known has no data.
func (e *Event) unmarshalData(data []byte) error {
	var err error
	switch e.Type {
	case EventStatus:
		var s StatusEvent
		err = json.Unmarshal(data, &s)
		e.Status, e.Attempt = s.Status, s.Attempt
	case EventStdout, EventStderr:
		var o OutputEvent
		if err = json.Unmarshal(data, &o); err != nil {
			break
		}
		e.Offset, e.Data = o.Offset, []byte(o.Text)
		if o.Base64 != "" {
			e.Data, err = base64.StdEncoding.DecodeString(o.Base64)
		}
	case EventArtifact:
		err = json.Unmarshal(data, &e.Artifact)
	case EventDisplay:
		err = json.Unmarshal(data, &e.Shown)
	case EventCompiled:
		err = json.Unmarshal(data, &e.Compile)
	case EventResult:
		if err = json.Unmarshal(data, &e.Job); err == nil && !e.Job.Ended() {
			err = fmt.Errorf("job %s has not ended", e.Job.ID)
		}
	}
	if err != nil {
		return fmt.Errorf("decode %.40q event: %w", e.Type, err)
	}
	return nil
}
