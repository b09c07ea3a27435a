package record

import (
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// All keys of a tenant share one hash tag, so that a script touches one slot.
func key(tenant, rest string) string { return tenantPrefix(tenant) + rest }

// tenantPrefix is what the keys of a tenant begin with.
func tenantPrefix(tenant string) string { return "gb:{" + tenant + "}:" }

func jobKey(tenant, id string) string         { return key(tenant, "job:"+id) }
func jobsKey(tenant string) string            { return key(tenant, "jobs") }
func openKey(tenant string) string            { return key(tenant, "open") }
func runningKey(tenant string) string         { return key(tenant, "running") }
func outboxKey(tenant string) string          { return key(tenant, "outbox") }
func garbageKey(tenant string) string         { return key(tenant, "garbage") }
func resultKey(tenant, id string) string      { return key(tenant, "result:"+id) }
func eventsKey(tenant, id string) string      { return key(tenant, "events:"+id) }
func storedKey(tenant string) string          { return key(tenant, "stored") }   // bytes
func recordedKey(tenant string) string        { return key(tenant, "recorded") } // bytes
func lentKey(tenant string) string            { return key(tenant, "lent") }
func lastingKey(tenant string) string         { return key(tenant, "lasting") }
func deliveryKey(tenant, did string) string   { return key(tenant, "delivery:"+did) }
func tenantKey(tenant string) string          { return key(tenant, "tenant") }
func tokenUseKey(tenant string) string        { return key(tenant, "tokenuse") }
func queuedKey(tenant string) string          { return key(tenant, "queued") } // bytes
func secretsKey(tenant string) string         { return key(tenant, "secrets") }
func webhookKey(tenant string) string         { return key(tenant, "webhook") }
func rateKey(tenant string) string            { return key(tenant, "rate") }
func batchKey(tenant, id string) string       { return key(tenant, "batch:"+id) }
func batchItemsKey(tenant, id string) string  { return key(tenant, "batch:"+id+":items") }
func batchErrorsKey(tenant, id string) string { return key(tenant, "batch:"+id+":errors") }
func batchesKey(tenant string) string         { return key(tenant, "batches") }
func batchWorkKey(tenant string) string       { return key(tenant, "batchwork") }
func backlogKey(tenant string, p job.Priority) string {
	return key(tenant, "backlog:"+string(p))
}

func laterKey(tenant string) string    { return key(tenant, "later") }
func deadlineKey(tenant string) string { return key(tenant, "deadline") }

func idemKey(tenant, idempotencyKey string) string {
	return key(tenant, "idem:"+hashKey(idempotencyKey))
}

// backlogKeys are those of all priorities.
func backlogKeys(tenant string) []string {
	return []string{backlogKey(tenant, job.High), backlogKey(tenant, job.Normal), backlogKey(tenant, job.Low)}
}

// passKey is there while a pass of the sweeper is made that is one process' for all.
func passKey(pass string) string { return "gb:pass:" + strings.ReplaceAll(pass, " ", "-") }

func workerKey(worker string) string { return "gb:worker:" + worker }

const (
	slotsKey       = "gb:slots"
	slotsTotalKey  = "gb:slots:total"
	shareKey       = "gb:share"
	tenantsKey     = "gb:tenants"
	runtimesKey    = "gb:runtimes"
	imagesKey      = "gb:images"
	keysKey        = "gb:keys"
	secretsKeysKey = "gb:secretkeys"
	doneChannel    = "gb:done"
	cancelChannel  = "gb:cancel"
	eventsChannel  = "gb:events:" // then the job's id
)
