package tracing

import "time"

// SetFlushTime changes how long the last spans may take.
func SetFlushTime(d time.Duration) { flushTime = d }
