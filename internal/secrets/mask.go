package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

const (
	// MinBytes is how long a secret is at least: what is shorter could not be masked
	// without masking half of what a program prints.
	MinBytes = 8
	mask     = "***"
)

// Mask replaces secrets in a stream by ***, wherever the stream is cut into pieces. It
// looks at each byte once, whatever the stream and the secrets are (Aho and Corasick's
// automaton), and holds back no more than what may be the beginning of a secret.
type Mask struct {
	nodes  []node
	edges  map[edge]int32
	roots  [256]int32 // edges of the root
	state  int32
	held   []byte // not given back yet
	ranges []span // what in held is a secret, in order, not touching each other
	inside bool   // what was given back last is a mask whose secret may go on
}

type node struct {
	depth int32 // bytes of a secret that have been seen
	fail  int32 // the longest end of them that begins a secret, too
	match int32 // length of the longest secret that ends here, or 0
}

type edge struct {
	from int32
	by   byte
}

type span struct{ from, to int } // of held

// NewMask returns a Mask of these secrets: of the values, of their lines where they have
// several, and of their base64. nil masks nothing.
func NewMask(values [][]byte) *Mask {
	m := &Mask{nodes: []node{{}}, edges: map[edge]int32{}}
	for _, v := range values {
		for _, form := range forms(v) {
			m.add(form)
		}
	}
	m.link()
	return m
}

// forms are what a program is likely to print of a secret.
func forms(value []byte) [][]byte {
	all := [][]byte{value, bytes.TrimSpace(value)}
	for line := range bytes.Lines(value) {
		all = append(all, bytes.TrimSpace(line))
	}
	for _, plain := range slices.Clone(all) { // as JSON and HTML have it, in which sessions show values
		all = append(all, insideJSON(plain), []byte(inText.Replace(string(plain))), []byte(inAttribute.Replace(string(plain))))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		all = append(all, []byte(encoding.EncodeToString(value)))
	}
	return slices.DeleteFunc(all, func(form []byte) bool { return len(form) < MinBytes })
}

var (
	inText      = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	inAttribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;")
)

// insideJSON is a text as it is between the quotes of a string of JSON.
func insideJSON(text []byte) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(text)); err != nil {
		return nil
	}
	return bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(b.Bytes()), []byte{'"'}), []byte{'"'})
}

func (m *Mask) add(secret []byte) {
	at := int32(0)
	for i, b := range secret {
		next := m.edge(at, b)
		if next == 0 {
			next = int32(len(m.nodes))
			m.nodes = append(m.nodes, node{depth: int32(i + 1)})
			m.setEdge(at, b, next)
		}
		at = next
	}
	m.nodes[at].match = int32(len(secret))
}

func (m *Mask) edge(from int32, by byte) int32 {
	if from == 0 {
		return m.roots[by]
	}
	return m.edges[edge{from, by}]
}

func (m *Mask) setEdge(from int32, by byte, to int32) {
	if from == 0 {
		m.roots[by] = to
	} else {
		m.edges[edge{from, by}] = to
	}
}

// link finds where to go on when a secret turns out not to be one, the shallow nodes
// first: what fail leads to is less deep.
func (m *Mask) link() {
	type link struct {
		edge
		to int32
	}
	var links []link
	for by, to := range m.roots {
		if to != 0 {
			links = append(links, link{edge{0, byte(by)}, to})
		}
	}
	for e, to := range m.edges {
		links = append(links, link{e, to})
	}
	slices.SortFunc(links, func(a, b link) int { return int(m.nodes[a.to].depth) - int(m.nodes[b.to].depth) })
	for _, l := range links {
		if l.from == 0 {
			continue // fails to the root
		}
		n := &m.nodes[l.to]
		n.fail = m.step(m.nodes[l.from].fail, l.by)
		n.match = max(n.match, m.nodes[n.fail].match)
	}
}

// step is the state after one more byte.
func (m *Mask) step(state int32, by byte) int32 {
	for {
		if next := m.edge(state, by); next != 0 || state == 0 {
			return next
		}
		state = m.nodes[state].fail
	}
}

// Write returns what of the stream, p appended, is certain by now.
func (m *Mask) Write(p []byte) []byte {
	if m == nil {
		return p
	}
	for _, by := range p {
		m.held = append(m.held, by)
		m.state = m.step(m.state, by)
		if match := m.nodes[m.state].match; match > 0 {
			m.cover(len(m.held)-int(match), len(m.held))
		}
	}
	return m.give(len(m.held) - int(m.nodes[m.state].depth))
}

// End returns the rest of the stream. A secret that the end cuts off is masked, too, if
// enough of it is there.
func (m *Mask) End() []byte {
	if m == nil {
		return nil
	}
	if depth := int(m.nodes[m.state].depth); depth >= MinBytes {
		m.cover(len(m.held)-depth, len(m.held))
	}
	m.state = 0
	return m.give(len(m.held))
}

// cover notes a secret, as one with those that it touches.
func (m *Mask) cover(from, to int) {
	for n := len(m.ranges); n > 0 && m.ranges[n-1].to >= from; n = len(m.ranges) {
		from = min(from, m.ranges[n-1].from)
		m.ranges = m.ranges[:n-1]
	}
	m.ranges = append(m.ranges, span{from, to})
}

// give takes the first n bytes out of held.
func (m *Mask) give(n int) []byte {
	var out []byte
	at := 0
	for at < n {
		end := n
		if len(m.ranges) > 0 {
			end = min(end, m.ranges[0].from)
		}
		if at < end {
			out = append(out, m.held[at:end]...)
			at, m.inside = end, false
			continue
		}
		if !m.inside {
			out = append(out, mask...)
			m.inside = true
		}
		at = min(n, m.ranges[0].to)
		if at < m.ranges[0].to { // goes on in what is held
			m.ranges[0].from = at
			break
		}
		m.ranges = m.ranges[1:]
	}
	m.held = append(m.held[:0], m.held[n:]...)
	for i := range m.ranges {
		m.ranges[i].from -= n
		m.ranges[i].to -= n
	}
	return out
}

// Text masks a text that is there as a whole.
func (m *Mask) Text(s string) string {
	if m == nil {
		return s
	}
	one := Mask{nodes: m.nodes, edges: m.edges, roots: m.roots}
	return string(append(one.Write([]byte(s)), one.End()...))
}

// Stream returns a Mask of the same secrets for another stream.
func (m *Mask) Stream() *Mask {
	if m == nil {
		return nil
	}
	return &Mask{nodes: m.nodes, edges: m.edges, roots: m.roots}
}
