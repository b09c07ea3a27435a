package facade

import (
	"bufio"
	"net/http"
	"unicode/utf8"

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

// value writes what is always JSON: façades' own structs, and texts.
func (o *Object) value(v any) {
	b, err := job.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = o.w.Write(b)
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
		for len(text) > 0 {
			n := piece(text)
			b, err := job.Marshal(valid(text[:n]))
			if err != nil {
				panic(err) // a string is always JSON
			}
			_, _ = o.w.Write(b[1 : len(b)-1])
			text = text[n:]
		}
	}
	_ = o.w.WriteByte('"')
}

// piece is how long the next piece of a text is, which cuts no character.
func piece(text []byte) int {
	if len(text) <= pieceBytes {
		return len(text)
	}
	for n := pieceBytes; n > pieceBytes-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	return pieceBytes // it is no text
}
