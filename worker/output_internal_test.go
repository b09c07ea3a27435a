package worker

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// drain is a bucket that keeps nothing.
type drain struct{ Objects }

func (drain) Upload(_ context.Context, key string, r io.Reader, _ artifacts.Options) (artifacts.Object, error) {
	n, err := io.Copy(io.Discard, r)
	return artifacts.Object{Key: key, Size: n}, err
}

// TestChartsOfAResult: the data of its charts, up to so many bytes in all, without secrets; and what is left out is said.
func TestChartsOfAResult(t *testing.T) {
	t.Parallel()
	p, l, o, running := eventPublisherTest(t)
	l.start(running)
	o.objects, o.mask = drain{}, secrets.NewMask([][]byte{[]byte("password"), []byte("20261127")})
	half := strings.Repeat("x", job.MaxCharts/2-100)
	for _, c := range []struct{ data, want string }{
		{"", ""},
		{`{"type":"line","title":"password"}`, `{"type":"line","title":"***"}`},
		{`{"type":"line","title":"","series":[{"type":"line","label":"","y":[20261127]}]}`, `{"type":"line","title":"","note":"its data hold a secret"}`},
		{`{"type":"line","title":"` + half + `"}`, `{"type":"line","title":"` + half + `"}`},
		{`{"type":"bar","title":"` + half + `"}`, `{"type":"bar","title":"` + half + `"}`},
		{`{"type":"bar","title":"a password","note":"` + half + `"}`, `{"type":"bar","title":"a ***","note":"its data are left out: the charts of a result have 262144 bytes at most"}`},
		{`{"type":"bar","title":"small"}`, `{"type":"bar","title":"small"}`},
		{`{"type":20261127}`, `{"type":"unknown","title":"","note":"its data can't be read: read chart: json: cannot unmarshal number into Go struct field chart.type of type string"}`},
	} {
		file := "\x89PNG\r\n\x1a\n"
		if c.data != "" {
			text := "glovebox:chart\x00" + c.data
			file += string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + "tEXt" + text + "sum." //nolint:gosec // of a test
		}
		if err := o.put(t.Context(), "a.png", int64(len(file)), strings.NewReader(file)); err != nil {
			t.Fatal(err)
		}
		if got := string(o.artifacts[len(o.artifacts)-1].Chart); got != c.want {
			t.Errorf("%.80s: got %.300s, want %.300s", c.data, got, c.want)
		}
	}
	l.finish()
	for _, e := range p.events {
		if strings.Contains(string(e.Data), `"chart"`) {
			t.Errorf("the event %.200s has a chart: the result has it", e.Data)
		}
	}
}
