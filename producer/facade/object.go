package facade

import (
	"bufio"
	"iter"
	"net/http"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Object is a JSON object that is written field by field. What programs printed is escaped piece by piece as it is sent: a byte may be six in JSON, and
// an encoder has all of them at once.
type Object struct {
	w     *bufio.Writer
	began bool
}

// pieceBytes is how much of a text is escaped at once.
const pieceBytes = 16 << 10

// WriteObject answers an object, whose fields the function writes. What goes wrong is the client's leaving, which nobody has to be told.
func WriteObject(w http.ResponseWriter, status int, fields func(o *Object)) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	o := &Object{w: bufio.NewWriterSize(w, 2*pieceBytes)}
	o.fields(fields)
	_ = o.w.WriteByte('\n')
	_ = o.w.Flush()
}

func (o *Object) fields(write func(o *Object)) {
	_ = o.w.WriteByte('{')
	write(&Object{w: o.w})
	_ = o.w.WriteByte('}')
}

// name begins a field.
func (o *Object) name(name string) {
	if o.began {
		_ = o.w.WriteByte(',')
	}
	o.began = true
	o.value(name)
	_ = o.w.WriteByte(':')
}

func (o *Object) value(v any) { _, _ = o.w.Write(marshal(v)) }

// marshal is JSON of what always has some: texts and numbers.
func marshal(v any) []byte {
	b, err := job.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Field writes a field whose value is small.
func (o *Object) Field(name string, v any) {
	o.name(name)
	o.value(v)
}

// Object writes a field that is an object.
func (o *Object) Object(name string, fields func(o *Object)) {
	o.name(name)
	o.fields(fields)
}

// Text writes a field that is these texts, one behind the other. valid makes UTF-8 of a piece of one.
func (o *Object) Text(name string, valid func(piece []byte) string, texts ...[]byte) {
	o.name(name)
	_ = o.w.WriteByte('"')
	for _, text := range texts {
		for piece := range Pieces(text, valid) {
			_, _ = o.w.Write(piece)
		}
	}
	_ = o.w.WriteByte('"')
}

// Pieces are a text's, each encoded in JSON without quotes, of which a character may take six bytes. No piece cuts a character, and valid makes UTF-8 of it.
func Pieces(text []byte, valid func(piece []byte) string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(text) > 0 {
			piece := text
			if len(piece) > pieceBytes {
				piece = job.WholeCharacters(piece[:pieceBytes])
			}
			encoded := marshal(valid(piece))
			if text = text[len(piece):]; !yield(encoded[1 : len(encoded)-1]) {
				return
			}
		}
	}
}

// Valid replaces what is not UTF-8.
func Valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
