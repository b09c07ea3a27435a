package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// flood is an input that never ends by itself.
type flood string

func (f flood) Next(ctx context.Context, _ int) ([]job.Input, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return []job.Input{{Data: string(f)}}, nil
}

// twoDialogs are tests whose programs are told more than they read.
type twoDialogs struct{ twoTests }

func (g *twoDialogs) Next(ctx context.Context) (sandbox.Test, bool, error) {
	t, ok, err := g.twoTests.Next(ctx)
	t.Input = flood(fmt.Sprint(g.given))
	return t, ok, err
}

// TestInputOfTests: what a program is sent in one test comes before the next test, whenever it ends, and nothing goes on to send when the
// sandbox is gone.
func TestInputOfTests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		act  func(*rogue, chan struct{})
		want string
		fail bool
	}{
		{"both end", func(r *rogue, heard chan struct{}) {
			r.ready()
			<-r.told
			for range 2 {
				r.test(0, func() { <-heard })
			}
			r.send(agentwire.TypeCleared, nil)
			<-r.done
			r.send(agentwire.TypeEnd, agentwire.End{})
		}, "test 1 test 2 done", false},
		{"the sandbox goes", func(r *rogue, heard chan struct{}) {
			r.ready()
			<-r.told
			r.test(0, func() { <-heard })
			r.test(0, func() { <-heard; r.conn.Close() })
		}, "test 1 test 2", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // it fails if a goroutine is left
				g := &twoDialogs{}
				heard := make(chan struct{})
				var order []string
				inTest := false
				agent := &rogue{act: func(r *rogue) { tt.act(r, heard) }, sees: func(f agentwire.Frame) {
					switch f.Type { //nolint:exhaustive // these have an order
					case agentwire.TypeTest:
						order, inTest = append(order, "test"), false
					case agentwire.TypeGo:
						inTest = true
					case agentwire.TypeDone:
						order = append(order, "done")
					case agentwire.TypeStdinData:
						if !inTest || string(f.Payload) == "in" {
							return
						}
						order = append(order, string(f.Payload))
						select {
						case heard <- struct{}{}:
						default:
						}
					}
				}}
				limits := job.Limits{WallMS: 1000, OutputKB: 1}.Filled(job.Limits{})
				s, err := serve(t, Task{Program: sandbox.Program{Command: []string{"x"}, Limits: limits, Tests: g, Interactive: true}, Sink: g}, nil, agent)
				if (err != nil) != tt.fail || !strings.Contains(string(agent.start), `"interactive":true`) {
					t.Errorf("got %v, %+v, start %s", err, s.Outcome, agent.start)
				}
				if got := strings.Join(slices.Compact(order), " "); got != tt.want {
					t.Errorf("the agent gets %s, want %s", got, tt.want)
				}
			})
		})
	}
}
