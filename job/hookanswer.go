package job

import (
	"fmt"
	"mime"
	"slices"
	"strings"
	"time"
)

// How a hook answers a request that is accepted, as [HookSettings.Answer] names it.
const (
	AnswerAccepted = "accepted" // at once, with the job's id
	AnswerResult   = "result"   // at the job's end, with what it printed
)

const (
	// MaxAnswerSeconds bounds how long a hook holds its answer.
	MaxAnswerSeconds = 60
	// MaxHookAnswer is how large the answer may be, bytes.
	MaxHookAnswer = 1 << 20
	// ResponseFile is the artifact by which a job says status, headers and body of its hook's answer.
	ResponseFile = "response.json"

	answerSeconds      = 25
	slackAnswerSeconds = 2 // Slack gives up after 3
	plainAnswer        = "text/plain; charset=utf-8"
)

// Media types that a hook may answer with. None is HTML, SVG or a script: strangers' programs choose the
// bytes, and the origin is the API's. Those that a browser may act upon nonetheless are downloaded.
var (
	shownAnswers = []string{
		"application/cloudevents+json", "application/json", "application/problem+json", "application/x-ndjson",
		"image/gif", "image/jpeg", "image/png", "image/webp", "text/csv", "text/plain",
	}
	savedAnswers = []string{"application/octet-stream", "application/pdf", "application/xml", "application/zip", "text/xml"}
)

// AnswerType reads a Content-Type that a hook may answer with: "" is plain text. download says that a
// browser must not show it. It is false for one that isn't allowed.
func AnswerType(contentType string) (canonical string, download, ok bool) {
	if contentType == "" {
		return plainAnswer, false, true
	}
	if len(contentType) > maxAnswerHeader {
		return "", false, false
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	charset, has := params["charset"]
	if err != nil || len(params) > 1 || len(params) == 1 && (!has || !strings.EqualFold(charset, "utf-8")) {
		return "", false, false // another charset can make a script of what looks like text
	}
	if has {
		mediaType += "; charset=utf-8"
	}
	bare, _, _ := strings.Cut(mediaType, ";")
	download = slices.Contains(savedAnswers, bare)
	return mediaType, download, download || slices.Contains(shownAnswers, bare)
}

// AnswerWait is how long the hook waits for its job.
func (h HookSettings) AnswerWait() time.Duration {
	switch {
	case h.AnswerSeconds > 0:
		return time.Duration(h.AnswerSeconds) * time.Second
	case h.Sender == SenderSlack:
		return slackAnswerSeconds * time.Second
	}
	return answerSeconds * time.Second
}

func (h HookSettings) checkAnswer(add addFunc) {
	waits := h.Answer == AnswerResult
	if !waits && h.Answer != "" && h.Answer != AnswerAccepted {
		add("answer", clip(h.Answer), "is not known", AnswerAccepted+", "+AnswerResult)
	}
	if h.AnswerSeconds < 0 || h.AnswerSeconds > MaxAnswerSeconds || h.AnswerSeconds > 0 && !waits {
		add("answer_seconds", h.AnswerSeconds, "is out of range", fmt.Sprintf("1 to %d with answer %s, else nothing", MaxAnswerSeconds, AnswerResult))
	}
	if _, _, ok := AnswerType(h.ContentType); !ok || h.ContentType != "" && !waits {
		add("content_type", clip(h.ContentType), "is no type that a hook answers with", AllowedAnswers()+"; with answer "+AnswerResult)
	}
}

// AllowedAnswers lists the types that [AnswerType] takes.
func AllowedAnswers() string {
	return strings.Join(append(slices.Clone(shownAnswers), savedAnswers...), ", ")
}
