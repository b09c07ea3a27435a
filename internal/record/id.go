package record

import (
	"crypto/sha256"
	"strconv"

	"github.com/glovebox-run/glovebox/job"
)

// DeliveryID is the webhook message id of (job, event, endpoint): always the same.
func DeliveryID(jobID, event, url string) string {
	h := sha256.New()
	for _, part := range []string{jobID, event, url} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return "msg_" + job.EncodeID(h.Sum(nil)[:16])
}
