// Package facadetest is for the tests of façades.
package facadetest

import (
	"context"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// Memory is an api's: what is held for an answer is told.
type Memory struct {
	facade.Host

	Held int64
}

// Hold is [facade.Host.Hold].
func (m *Memory) Hold(_ context.Context, bytes int64) error {
	m.Held += bytes
	return nil
}

// Check fails the test unless what was printed is held, and no more than half of what a tenant may hold: there are two streams.
func (m *Memory) Check(tb testing.TB, printed []byte) {
	tb.Helper()
	if m.Held < int64(len(printed)) || m.Held > 32<<20/2 {
		tb.Errorf("%d bytes are held for %d that were printed, want these, and half of what a tenant may hold at most", m.Held, len(printed))
	}
}

// Printed is a call to an api with this memory, and the result of a job whose standard output the bucket has.
func Printed(tb testing.TB, output []byte) (*facade.Call, *Memory, job.Result) {
	tb.Helper()
	w := producertest.New(tb, "")
	w.Runtimes(tb)
	accepted, err := w.Client.Submit(tb.Context(), job.Spec{Runtime: "python", Source: "print(1)"})
	if err != nil {
		tb.Fatal(err)
	}
	m := &Memory{}
	return &facade.Call{Client: w.Client, Host: m}, m, w.Printed(tb, accepted.ID, output, producer.Stdout)
}
