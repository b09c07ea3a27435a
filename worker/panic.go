package worker

import (
	"fmt"
	"runtime/debug"
)

// caught is to be deferred. It makes an error of a panic, with its stack: a job must not end the worker, and then the next one that has it.
// The error begins with what was being done.
func caught(what string, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%spanic: %v\n%s", what, v, debug.Stack())
	}
}
