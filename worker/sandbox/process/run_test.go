package process_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestHello(t *testing.T) {
	t.Parallel()
	o, k := run(t, python("import os; print('hello', os.getuid(), os.getpid(), os.listdir('/'), os.listdir('/etc'), os.listdir('/dev'))"))
	t.Logf("%+v\n%s%s", o, k.stdout.String(), k.stderr.String())
	if o.Status != job.Succeeded {
		t.Error(o.Status)
	}
}
