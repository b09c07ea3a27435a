package judge0

import (
	"net/http"

	"github.com/glovebox-run/glovebox/producer/facade"
)

// named is one of the statuses.
type named struct {
	ID          int    `json:"id"`
	Description string `json:"description"`
}

// The ids of statuses.
const (
	inQueue = iota + 1
	processing
	accepted
	wrongAnswer
	timeLimit
	compilationError
	runtimeSIGSEGV
	runtimeSIGXFSZ
	runtimeSIGFPE
	runtimeSIGABRT
	runtimeNZEC
	runtimeOther
	internalError
	execFormatError
)

var statuses = []named{
	{inQueue, "In Queue"},
	{processing, "Processing"},
	{accepted, "Accepted"},
	{wrongAnswer, "Wrong Answer"},
	{timeLimit, "Time Limit Exceeded"},
	{compilationError, "Compilation Error"},
	{runtimeSIGSEGV, "Runtime Error (SIGSEGV)"},
	{runtimeSIGXFSZ, "Runtime Error (SIGXFSZ)"},
	{runtimeSIGFPE, "Runtime Error (SIGFPE)"},
	{runtimeSIGABRT, "Runtime Error (SIGABRT)"},
	{runtimeNZEC, "Runtime Error (NZEC)"},
	{runtimeOther, "Runtime Error (Other)"},
	{internalError, "Internal Error"},
	{execFormatError, "Exec Format Error"},
}

// statusOf is the status of an id.
func statusOf(id int) named { return statuses[id-1] }

func listStatuses(w http.ResponseWriter, _ *http.Request, _ *facade.Call) {
	writeJSON(w, http.StatusOK, statuses)
}
