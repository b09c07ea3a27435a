package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// output is where one stream of the job goes, and how much of it.
type output struct {
	most int64
	sent int64
	// truncate drops what is beyond most, silently, instead of ending the job.
	truncate bool
	send     func([]byte) error
}

// add sends p as far as the limit allows.
func (o *output) add(p []byte) error {
	p = p[:min(int64(len(p)), o.most-o.sent)]
	o.sent += int64(len(p))
	return o.send(p)
}

// pump copies r until every process that could write to it is gone. It calls exceeded
// when there is more than the limit allows, and reads on, so that nothing blocks.
func (o *output) pump(r *os.File, exceeded func()) error {
	defer r.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if over := o.sent+int64(n) > o.most; over && !o.truncate {
			exceeded()
		}
		if sendErr := o.add(buf[:n]); sendErr != nil {
			return sendErr
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read output: %w", err)
		}
	}
}
