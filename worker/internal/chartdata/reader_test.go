package chartdata_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/internal/chartdata"
)

const (
	signature = "\x89PNG\r\n\x1a\n"
	line      = `{"type":"line","title":"t","series":[{"type":"line","label":"","x":[1,2],"y":[3,null]}]}`
)

func chunk(name, content string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(content))) //nolint:gosec // of a test
	b = append(append(b, name...), content...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:])))
}

func png(chunks ...string) string {
	return signature + chunk("IHDR", strings.Repeat("\x00", 13)) + strings.Join(chunks, "") + chunk("IDAT", "x") + chunk("IEND", "")
}

func svg(description string) string {
	return "<?xml version=\"1.0\"?>\n<!DOCTYPE svg>\n<svg xmlns=\"x\"><metadata><rdf:RDF><cc:Work><dc:date>2026</dc:date><dc:description>" + description +
		"</dc:description></cc:Work></rdf:RDF></metadata><defs/></svg>"
}

func read(tb testing.TB, r io.Reader) (string, error) {
	tb.Helper()
	c := chartdata.NewReader(r)
	if _, err := io.Copy(io.Discard, c); err != nil {
		tb.Fatal(err)
	}
	_, text, err := c.Chart()
	return string(text), err
}

func TestChart(t *testing.T) {
	t.Parallel()
	long := `{"type":"line","title":"","note":"` + strings.Repeat("n", job.MaxChart-36) + `"}`
	for name, tt := range map[string]struct {
		file, want string
		fails      bool
	}{
		"a PNG":                  {png(chunk("tEXt", "Software\x00m"), chunk("tEXt", "glovebox:chart\x00"+line)), line, false},
		"an SVG":                 {svg("glovebox:chart " + line), line, false},
		"the longest":            {png(chunk("tEXt", "glovebox:chart\x00"+long)), long, false},
		"one byte more":          {png(chunk("tEXt", "glovebox:chart\x00"+long+" ")), "", true},
		"entities":               {svg("glovebox:chart " + strings.ReplaceAll(line, `"t"`, `"&lt;&amp;"`)), strings.ReplaceAll(line, `"t"`, `"<&"`), false},
		"fields of tomorrow":     {png(chunk("tEXt", "glovebox:chart\x00"+`{"type":"bar","title":"","hue":[{}]}`)), `{"type":"bar","title":""}`, false},
		"no chart":               {png(), "", false},
		"another keyword":        {png(chunk("tEXt", "glovebox:charts\x00"+line)), "", false},
		"after the image":        {png(chunk("IDAT", "x"), chunk("tEXt", "glovebox:chart\x00"+line)), "", false},
		"a chunk without an end": {signature + "\xff\xff\xff\xfftEXtglovebox:chart\x00" + line, "", false},
		"cut in the midst":       {png(chunk("tEXt", "glovebox:chart\x00"+line))[:80], "", false},
		"no JSON":                {png(chunk("tEXt", "glovebox:chart\x00{")), "", true},
		"outside of metadata":    {"<svg><description>glovebox:chart " + line + "</description><metadata></metadata></svg>", "", false},
		"far behind":             {"<svg>" + strings.Repeat(" ", 300<<10) + "<metadata><description>glovebox:chart " + line + "</description></metadata></svg>", "", false},
		"a text":                 {"glovebox:chart " + line, "", false},
		"short":                  {"x", "", false},
		"nothing":                {"", "", false},
	} {
		for way, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.file), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.file)), "with its end": iotest.DataErrReader(strings.NewReader(tt.file)),
		} {
			if got, err := read(t, r); got != tt.want || (err != nil) != tt.fails {
				t.Errorf("%s, %s: got %.200q, %v, want %.200q", name, way, got, err, tt.want)
			}
		}
	}
}

// TestPassesThrough: what is read is the file, whatever it holds.
func TestPassesThrough(t *testing.T) {
	t.Parallel()
	for _, file := range []string{png(chunk("tEXt", "glovebox:chart\x00"+line)), svg(line), strings.Repeat("x", 1<<20)} {
		if err := iotest.TestReader(chartdata.NewReader(strings.NewReader(file)), []byte(file)); err != nil {
			t.Error(err)
		}
	}
}

func FuzzChart(f *testing.F) {
	for _, file := range []string{
		png(chunk("tEXt", "glovebox:chart\x00"+line)), png(chunk("iTXt", "glovebox:chart\x00\x00\x00\x00\x00"+line)), signature + "\xff\xff\xff\xfftEXt", svg("glovebox:chart " + line),
		svg("<![CDATA[glovebox:chart {}]]>"), "<svg><metadata><description>glovebox:chart {\"type\":\"x\",\"charts\":[{\"charts\":[{}]}]}</description></metadata>", "<svg", "\x89PNG",
	} {
		f.Add([]byte(file), uint16(3))
	}
	f.Fuzz(func(t *testing.T, file []byte, step uint16) {
		whole, err := read(t, bytes.NewReader(file))
		pieces, again := read(t, &slow{bytes.NewReader(file), int(step)%4096 + 1})
		if whole != pieces || (err == nil) != (again == nil) {
			t.Errorf("got %q, %v at once, and %q, %v in pieces of %d", whole, err, pieces, again, step)
		}
		if whole == "" || len(whole) > job.MaxChart || strings.Count(whole, "{") > job.MaxChartObjects { // numbers and escapes may be written longer
			return
		}
		chart, err := job.ParseChart([]byte(whole))
		if err != nil {
			t.Fatalf("%q is no chart: %v", whole, err)
		}
		if text, err := job.Marshal(chart); err != nil || string(text) != whole {
			t.Errorf("%q is %q when it is read once more, %v", whole, text, err)
		}
	})
}

// slow gives so many bytes a time.
type slow struct {
	r io.Reader
	n int
}

func (s *slow) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }
