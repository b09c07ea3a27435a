package sandbox_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestHello(t *testing.T) {
	o, k := run(t, program("print('hello')"))
	if o.Status != job.Succeeded || k.stdout.String() != "hello\n" || o.ExitCode != 0 {
		t.Errorf("got %+v, %q", o, k.stdout.String())
	}
	t.Logf("%+v", o)
}
