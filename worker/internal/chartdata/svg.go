package chartdata

import (
	"bytes"
	"encoding/xml"
	"strings"
)

const (
	svgBegin = "<svg"
	xmlBegin = "<?xml"
)

// metadataEnd is where the metadata of an SVG end. Matplotlib writes it so.
const metadataEnd = "</metadata>"

// svgFinder waits for the metadata, which come before anything that is drawn, and reads them.
type svgFinder struct {
	looked int // as much was looked at
}

func (f *svgFinder) find(head []byte) (data []byte, done bool) {
	from := max(f.looked-len(metadataEnd), 0)
	f.looked = len(head)
	at := bytes.Index(head[from:], []byte(metadataEnd))
	if at < 0 {
		return nil, false
	}
	return description(head[:from+at]), true
}

// description returns the data from the first description that has them; nil if there is none.
func description(head []byte) []byte {
	d := xml.NewDecoder(bytes.NewReader(head))
	inside, inMetadata := false, false
	var text strings.Builder
	for {
		token, err := d.RawToken()
		if err != nil {
			return nil // the end, or no XML
		}
		switch t := token.(type) {
		case xml.StartElement:
			inMetadata = inMetadata || t.Name.Local == "metadata"
			inside = inMetadata && t.Name.Local == "description"
			text.Reset()
		case xml.CharData:
			if inside {
				text.Write(t)
			}
		case xml.EndElement:
			if data, ok := strings.CutPrefix(text.String(), keyword+" "); inside && ok {
				return []byte(data)
			}
			inside = false
		}
	}
}
