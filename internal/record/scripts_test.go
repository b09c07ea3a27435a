package record

import (
	"testing"

	"github.com/glovebox-run/glovebox/internal/script/scripttest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, scripts, "endScript", "cancelScript", "createScript") // finishArgs, createMany
}
