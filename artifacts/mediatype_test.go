package artifacts_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/job"
)

func TestMediaType(t *testing.T) {
	t.Parallel()
	const (
		text    = "text/plain; charset=utf-8"
		svg     = "image/svg+xml"
		svgRoot = `<svg xmlns="http://www.w3.org/2000/svg">`
	)
	for _, test := range []struct{ name, head, want, kind string }{
		{"plot.png", "\x89PNG\r\n\x1a\n", "image/png", job.KindChart},
		{"plot.dat", "\x89PNG\r\n\x1a\n", "image/png", job.KindChart},
		{"p.jpg", "\xff\xd8\xff\xe0", "image/jpeg", job.KindChart},
		{"p.gif", "GIF89a", "image/gif", job.KindChart},
		{"p.webp", "RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp", job.KindChart},
		{"p.svg", svgRoot, svg, job.KindChart},
		{"p.svg", `<?xml version="1.0" encoding="utf-8"?>` + "\n<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\"\n \"x.dtd\">\n" + svgRoot, svg, job.KindChart},
		{"p.svg", "<!-- <html> -->" + svgRoot, svg, job.KindChart},
		{"p.txt", "\xef\xbb\xbf \n" + svgRoot, svg, job.KindChart},
		{"report.pdf", "%PDF-1.7", "application/pdf", job.KindFile},

		// A name alone makes no image.
		{"fake.png", "<script>", "text/html; charset=utf-8", job.KindFile},
		{"fake.svg", "<html><svg>", "text/html; charset=utf-8", job.KindFile},
		{"fake.svg", "text <svg>", text, job.KindFile},
		{"fake.parquet", "\x00\x01", "application/octet-stream", job.KindFile},
		{"fake.json", "words", text, job.KindFile},
		{"fake.xlsx", "\x00\x01", "application/octet-stream", job.KindFile},
		{"page.csv", "<!DOCTYPE html>", "text/html; charset=utf-8", job.KindFile},

		{"a.csv", "a,b\n1,2\n", "text/csv; charset=utf-8", job.KindFile},
		{"a.csv", "\xff\xfea\x00,\x00", "text/plain; charset=utf-16le", job.KindFile},
		{"a.CSV", "", "text/csv; charset=utf-8", job.KindFile},
		{"a.tsv", "a\tb", "text/tab-separated-values; charset=utf-8", job.KindFile},
		{"a.json", " {\"a\":1}", "application/json", job.KindFile},
		{"a.jsonl", "[1]\n[2]\n", "application/x-ndjson", job.KindFile},
		{"a.md", "# hello", "text/markdown; charset=utf-8", job.KindFile},
		{"a.py", "print('x')", text, job.KindFile},
		{"a.html", "<!doctype html>", "text/html; charset=utf-8", job.KindFile},
		{"a.xlsx", "PK\x03\x04", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", job.KindFile},
		{"a.zip", "PK\x03\x04", "application/zip", job.KindFile},
		{"a.parquet", "PAR1\x00\x01", "application/vnd.apache.parquet", job.KindFile},
		{"", "", text, job.KindFile},
	} {
		got := artifacts.MediaType(test.name, []byte(test.head))
		if got != test.want || artifacts.Kind(got) != test.kind {
			t.Errorf("%q beginning %.30q: got %q, %s, want %q, %s", test.name, test.head, got, artifacts.Kind(got), test.want, test.kind)
		}
	}
}

func FuzzMediaType(f *testing.F) {
	f.Add("a.svg", []byte("<?xml version=\"1.0\"?><svg>"))
	f.Fuzz(func(t *testing.T, name string, head []byte) {
		if artifacts.MediaType(name, head) == "" {
			t.Errorf("%q beginning %q has no type", name, head)
		}
	})
}
