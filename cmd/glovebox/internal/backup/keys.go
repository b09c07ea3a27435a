package backup

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/rdb"
)

// Count is what there is of records.
type Count struct{ Keys, Tenants, Jobs int }

// passing are keys that say how things are at the moment: they are not put back. asynq's tasks are among
// them: the sweeper makes anew what the records want.
var passing = []string{"asynq:", "gb:worker:", "gb:slots", "gb:drained", "gb:share", "gb:pass:", "gb:ping", "gb:bell:", "gb:backup"}

// wanted reports whether a key is one that is put back.
func wanted(k rdb.Key, db int) bool {
	if k.DB != db || !strings.HasPrefix(k.Name, "gb:") {
		return false
	}
	for _, p := range passing {
		if strings.HasPrefix(k.Name, p) {
			return false
		}
	}
	return true
}

// eachKey does something with each key of a snapshot that is put back, reads it to its end, and counts.
func eachKey(r io.Reader, db int, do func(rdb.Key) error, n *Count) error {
	d, err := rdb.NewReader(r)
	if err != nil {
		return err
	}
	for {
		k, err := d.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			_, err = io.Copy(io.Discard, r) // nothing is behind it
			return err
		}
		if err != nil {
			return fmt.Errorf("read the records: %w", err)
		}
		if !wanted(k, db) {
			continue
		}
		n.Keys++
		if tenant, kind, ok := strings.Cut(strings.TrimPrefix(k.Name, "gb:{"), "}:"); ok && tenant != k.Name {
			if kind == "tenant" {
				n.Tenants++
			}
			if strings.HasPrefix(kind, "job:") {
				n.Jobs++
			}
		}
		if err := do(k); err != nil {
			return err
		}
	}
}
