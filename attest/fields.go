package attest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strconv"

	"github.com/glovebox-run/glovebox/job"
)

// fields is a SHA-256 over fields, each behind its length: eight bytes, big-endian.
type fields struct{ sum hash.Hash }

func newFields(domain string) fields {
	f := fields{sha256.New()}
	f.text(domain)
	return f
}

func (f fields) text(all ...string) {
	for _, s := range all {
		f.length(int64(len(s)))
		f.sum.Write([]byte(s))
	}
}

// length begins a field of n bytes.
func (f fields) length(n int64) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(n))
	f.sum.Write(length[:])
}

func (f fields) number(n int64) { f.text(strconv.FormatInt(n, 10)) }

func (f fields) flag(set bool) {
	n := int64(0)
	if set {
		n = 1
	}
	f.number(n)
}

// optional is the number, or an empty field.
func (f fields) optional(n *int) {
	if n == nil {
		f.text("")
		return
	}
	f.number(int64(*n))
}

func (f fields) hex() string { return hex.EncodeToString(f.sum.Sum(nil)) }

// grading adds what a job is judged by. Inputs and answers count by their digests.
func (f fields) grading(spec job.Spec) {
	f.number(int64(len(spec.Tests)))
	for _, t := range spec.Tests {
		in, answer := t.Input(), t.Expected()
		t.Stdin, t.StdinBase64, t.StdinUpload = "", "", ""
		t.Answer, t.AnswerBase64, t.AnswerUpload = "", "", ""
		f.json(t)
		f.text(digest(in), digest(answer))
	}
	checker := spec.Checker
	if program := spec.CheckerProgram(); program != nil { // its runtime and limits are as little an input as the job's own
		p, c := *program, *checker
		p.Runtime, p.Limits = "", job.Limits{}
		c.Program, checker = &p, &c
	}
	f.json(checker)
	f.json(spec.Groups)
}

// json adds v as JSON. Nothing that is given can fail: there are neither functions nor channels, and
// a number that JSON does not have is refused as the job is submitted.
func (f fields) json(v any) {
	b, err := job.Marshal(v)
	if err != nil {
		b = []byte(err.Error())
	}
	f.text(string(b))
}
