package artifacts

import (
	"bytes"
	"encoding/xml"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

const (
	textUTF8 = "text/plain; charset=utf-8"
	svgType  = "image/svg+xml"
)

// byName refines what content leaves open: several formats look like the same text or
// the same ZIP. A name can choose among types of one class only, so none makes a
// browser run what content alone would not.
var byName = map[string]map[string]string{
	"text/plain": {
		".csv":    "text/csv; charset=utf-8",
		".tsv":    "text/tab-separated-values; charset=utf-8",
		".md":     "text/markdown; charset=utf-8",
		".json":   "application/json",
		".ipynb":  "application/x-ipynb+json",
		".ndjson": "application/x-ndjson",
		".jsonl":  "application/x-ndjson",
	},
	"application/zip": {
		".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	},
	"application/octet-stream": {
		".parquet": "application/vnd.apache.parquet",
	},
}

// MediaType tells the type of a file from how it begins; its name decides only where
// content can't. A type here is a description: what a browser may do with the file is
// decided by [Store.Presign].
func MediaType(name string, head []byte) string {
	if isSVG(head) {
		return svgType
	}
	sniffed := http.DetectContentType(head)
	class := essence(sniffed)
	ext := strings.ToLower(path.Ext(name))
	if class == "application/octet-stream" && ext == ".parquet" && !bytes.HasPrefix(head, []byte("PAR1")) {
		return sniffed
	}
	if strings.HasSuffix(byName[class][ext], "json") && !jsonStart(head) {
		return sniffed
	}
	if refined, ok := byName[class][ext]; ok && (class != "text/plain" || sniffed == textUTF8) { // UTF-16 stays what it is
		return refined
	}
	return sniffed
}

// Kind tells charts (images) from other files.
func Kind(mediaType string) string {
	if strings.HasPrefix(mediaType, "image/") {
		return job.KindChart
	}
	return job.KindFile
}

// inline reports whether a browser shows a type without running anything of it. SVG
// and PDF can carry scripts; HTML and XML are scripts for all we know.
func inline(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp", textUTF8:
		return true
	}
	return false
}

// disposition is the Content-Disposition that a type is served with.
func disposition(filename, mediaType string) string {
	verb := "attachment"
	if inline(mediaType) {
		verb = "inline"
	}
	if d := mime.FormatMediaType(verb, map[string]string{"filename": path.Base(filename)}); d != "" {
		return d
	}
	return verb
}

// isSVG looks for a root element named svg, after any XML declaration, doctype and
// comments; Go's sniffer calls SVG text, XML or HTML, depending on these.
func isSVG(head []byte) bool {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	if !bytes.HasPrefix(trimmed, []byte("<")) {
		return false
	}
	d := xml.NewDecoder(bytes.NewReader(trimmed))
	for {
		token, err := d.RawToken()
		if err != nil {
			return false
		}
		switch t := token.(type) {
		case xml.StartElement:
			return t.Name.Local == "svg"
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return false
			}
		}
	}
}

// jsonStart reports whether text can be the start of JSON.
func jsonStart(head []byte) bool {
	trimmed := bytes.TrimLeft(head, " \t\r\n")
	return len(trimmed) > 0 && strings.IndexByte(`{["-0123456789tfn`, trimmed[0]) >= 0
}

// essence is a media type without its parameters.
func essence(mediaType string) string {
	before, _, _ := strings.Cut(mediaType, ";")
	return strings.TrimSpace(before)
}
