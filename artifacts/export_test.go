package artifacts

import "time"

// SetAbortTimeout changes for how long a failed upload cleans up.
func SetAbortTimeout(d time.Duration) { abortTimeout = d }
