package record

import (
	"crypto/sha256"
	"strconv"

	"github.com/glovebox-run/glovebox/job"
)

// DeliveryID is the id of a delivery, always the same: of what it is about, the event, and the
// URL of a callback or the id of an endpoint. That to a callback is the message's id, too.
func DeliveryID(subject, event, to string) string {
	h := sha256.New()
	for _, part := range []string{subject, event, to} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return "msg_" + job.EncodeID(h.Sum(nil)[:16])
}

// MessageID is the webhook message id of an event, the same at all endpoints.
func MessageID(subject, event string) string { return DeliveryID(subject, event, "") }
