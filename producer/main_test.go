package producer_test

import (
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"
)

// exampleServers end after the last example, which has no end of its own.
var exampleServers []*httptest.Server

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(runner{m})
}

// runner ends the servers before goleak looks.
type runner struct{ *testing.M }

func (r runner) Run() int {
	defer func() {
		for _, s := range exampleServers {
			s.Close()
		}
	}()
	return r.M.Run()
}
