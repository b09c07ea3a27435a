package e2b

import (
	"bytes"
	"compress/zlib"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// envdText does in a sandbox what envd does in E2B's: nothing but code that a session executes reaches its files.
//
//go:embed envd.py
var envdText []byte

// envdProgram is envdText as it is sent: an execution of more than some kilobytes would be an object in the bucket.
var envdProgram = func() string {
	var zipped bytes.Buffer
	z := zlib.NewWriter(&zipped)
	_, err := z.Write(envdText)
	if err = errors.Join(err, z.Close()); err != nil {
		panic(err) // nothing is written but memory
	}
	return fmt.Sprintf("exec(__import__('zlib').decompress(__import__('base64').b64decode(%q)))\n", base64.StdEncoding.EncodeToString(zipped.Bytes()))
}()

// refusedCode is the exit code of envdProgram when it says what is wrong.
const refusedCode = 90

// errand is what envdProgram is asked for.
type errand map[string]any

// execution is the one that does it. It fails with a facade.BadRequest for what is longer than a session's code may be, as it will be
// in base64.
func (e errand) execution(x job.Session) (job.SessionExecution, error) {
	asked, err := job.Marshal(e)
	if err != nil {
		return job.SessionExecution{}, fmt.Errorf("encode errand: %w", err)
	}
	if size, most := int64(base64.StdEncoding.EncodedLen(len(asked))), x.Limits.SourceKB<<10; size > most {
		return job.SessionExecution{}, facade.BadRequest(fmt.Sprintf("what is asked for takes %d bytes as code: want up to %d (source_kb)", size, most))
	}
	code := envdProgram + `glovebox_envd("` + base64.StdEncoding.EncodeToString(asked) + "\")\n"
	return job.SessionExecution{Code: code, Metadata: map[string]string{"e2b": fmt.Sprint(e["do"])}}, nil
}

// does has a sandbox do it, and returns the result where that went well. It fails with a callError for what the sandbox says is wrong.
func (e errand) does(ctx context.Context, w http.ResponseWriter, c *facade.Call, x job.Session, files []job.File) (job.Result, error) {
	execution, err := e.execution(x)
	if err != nil {
		return job.Result{}, err
	}
	inEnvd(x, &execution)
	execution.Files = files
	return runErrand(ctx, w, c, x, execution)
}

// runErrand executes it, and returns the result where that went well.
func runErrand(ctx context.Context, w http.ResponseWriter, c *facade.Call, x job.Session, execution job.SessionExecution) (job.Result, error) {
	r, err := c.RunIn(ctx, w, x.ID, execution)
	if err != nil {
		return r, executionFault(err)
	}
	return r, faultOf(ctx, c, r)
}

// What the sandbox says of files that it can't give to an execution.
const (
	filesDontFit = "glovebox: the input files do not fit"
	fileRefused  = "glovebox: an input file can't be made"
)

// faultOf is what an errand's result says is wrong.
func faultOf(ctx context.Context, c *facade.Call, r job.Result) error {
	switch {
	case r.Status == job.Succeeded:
		return nil
	case r.Status == job.Failed && r.ExitCode != nil && *r.ExitCode == refusedCode:
		said, err := c.Head(ctx, r, producer.Stderr, 8<<10)
		if err != nil {
			return err
		}
		var fault callError
		if json.Unmarshal(said, &fault) == nil && statusOfCode[fault.Code] != 0 { // the program's word
			fault.Message = job.Clip(fault.Message, 1000)
			return fault
		}
	case r.Status == job.Failed && strings.HasPrefix(r.Stderr, filesDontFit):
		return callError{"resource_exhausted", job.Clip(strings.TrimSpace(r.Stderr), 1000)}
	case r.Status == job.Failed && strings.HasPrefix(r.Stderr, fileRefused):
		return callError{"invalid_argument", job.Clip(strings.TrimSpace(r.Stderr), 1000)}
	case r.Status == job.Canceled && r.Error != nil && r.Error.Code == job.CodeSessionEnded:
		return errEnded
	}
	why := string(r.Status)
	if r.Error != nil {
		why += ": " + r.Error.Message
	}
	return callError{"internal", "the sandbox did not do it: " + why}
}

// printedType is the media type of a result that says how many bytes envdProgram printed.
const printedType = "application/x-glovebox-printed"

// checkPrinted fails where an errand's output of this size is not what envdProgram printed alone: what a program prints that was left running
// would be taken for a part of it.
func checkPrinted(r job.Result, size int64) error {
	for _, shown := range r.Results {
		if told, ok := shown.Data[printedType]; ok && told.Text == strconv.FormatInt(size, 10) {
			return nil
		}
	}
	return callError{"unavailable", "a program that was left running in the sandbox printed while this was read: try again, or end it"}
}
