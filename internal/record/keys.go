package record

import (
	"strings"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

func jobKey(tenant, id string) string          { return script.Key(tenant, "job:"+id) }
func jobsKey(tenant string) string             { return script.Key(tenant, "jobs") }
func openKey(tenant string) string             { return script.Key(tenant, "open") }
func runningKey(tenant string) string          { return script.Key(tenant, "running") }
func outboxKey(tenant string) string           { return script.Key(tenant, "outbox") }
func garbageKey(tenant string) string          { return script.Key(tenant, "garbage") }
func resultKey(tenant, id string) string       { return script.Key(tenant, "result:"+id) }
func eventsKey(tenant, id string) string       { return script.Key(tenant, "events:"+id) }
func inputKey(tenant, id string) string        { return script.Key(tenant, "input:"+id) }
func storedKey(tenant string) string           { return script.Key(tenant, "stored") }   // bytes
func recordedKey(tenant string) string         { return script.Key(tenant, "recorded") } // bytes
func lentKey(tenant string) string             { return script.Key(tenant, "lent") }
func lastingKey(tenant string) string          { return script.Key(tenant, "lasting") }
func deliveryKey(tenant, did string) string    { return script.Key(tenant, "delivery:"+did) }
func tenantKey(tenant string) string           { return script.Key(tenant, "tenant") }
func tokenUseKey(tenant string) string         { return script.Key(tenant, "tokenuse") }
func queuedKey(tenant string) string           { return script.Key(tenant, "queued") } // bytes
func webhookKey(tenant string) string          { return script.Key(tenant, "webhook") }
func rateKey(tenant string) string             { return script.Key(tenant, "rate") }
func problemsKey(tenant string) string         { return script.Key(tenant, "problems") }
func gradedKey(tenant, digest string) string   { return script.Key(tenant, "graded:"+digest) }
func batchKey(tenant, id string) string        { return script.Key(tenant, "batch:"+id) }
func batchItemsKey(tenant, id string) string   { return script.Key(tenant, "batch:"+id+":items") }
func batchErrorsKey(tenant, id string) string  { return script.Key(tenant, "batch:"+id+":errors") }
func batchesKey(tenant string) string          { return script.Key(tenant, "batches") }
func batchWorkKey(tenant string) string        { return script.Key(tenant, "batchwork") }
func runKey(tenant, id string) string          { return script.Key(tenant, "run:"+id) }
func runItemsKey(tenant, id string) string     { return script.Key(tenant, "runitems:"+id) }
func runsKey(tenant string) string             { return script.Key(tenant, "runs") }
func runWorkKey(tenant string) string          { return script.Key(tenant, "runwork") }
func endpointsKey(tenant string) string        { return script.Key(tenant, "endpoints") }
func endpointLaneKey(tenant, id string) string { return script.Key(tenant, "lane:"+id) }
func attemptsKey(tenant, id string) string     { return script.Key(tenant, "attempts:"+id) }
func failedKey(tenant, id string) string       { return script.Key(tenant, "failed:"+id) }
func backlogKey(tenant string, p job.Priority) string {
	return script.Key(tenant, "backlog:"+string(p))
}

func approvalsKey(tenant string) string   { return script.Key(tenant, "approvals") }
func laterKey(tenant string) string       { return script.Key(tenant, "later") }
func schedulesKey(tenant string) string   { return script.Key(tenant, "schedules") }
func firesKey(tenant, name string) string { return script.Key(tenant, "fires:"+name) }
func deadlineKey(tenant string) string    { return script.Key(tenant, "deadline") }

func idemKey(tenant, idempotencyKey string) string {
	return script.Key(tenant, "idem:"+hashKey(idempotencyKey))
}

func sessionKey(tenant, id string) string { return script.Key(tenant, "session:"+id) }
func turnsKey(tenant, id string) string   { return script.Key(tenant, "turns:"+id) }
func sessionsKey(tenant string) string    { return script.Key(tenant, "sessions") }
func sessionWorkKey(tenant string) string { return script.Key(tenant, "sessionwork") }
func heldKey(tenant string) string        { return script.Key(tenant, "held") }

// commonBacklogs are those of jobs without a placement.
func commonBacklogs(tenant string) []string {
	return []string{backlogKey(tenant, job.High), backlogKey(tenant, job.Normal), backlogKey(tenant, job.Low)}
}

// backlogKeys are those in which all jobs are that wait in a backlog, each once.
func backlogKeys(tenant string) []string {
	return append(commonBacklogs(tenant), placedBacklogKey(tenant))
}

// placedBacklogKey has all jobs with a placement that wait in a backlog.
func placedBacklogKey(tenant string) string { return script.Key(tenant, "backlog:@") }

// poolBacklogs are those of jobs with that placement.
func poolBacklogs(tenant, placement string) []string {
	keys := commonBacklogs(tenant)
	for i := range keys {
		keys[i] += "@" + placement
	}
	return keys
}

func poolsKey(tenant string) string             { return script.Key(tenant, "pools") }
func windowsKey(tenant string) string           { return script.Key(tenant, "windows") }
func lineKey(tenant string) string              { return script.Key(tenant, "line") }
func placedKey(tenant, placement string) string { return script.Key(tenant, "placed:"+placement) }

// passKey is there while a pass of the sweeper is made that is one process' for all.
func passKey(pass string) string { return "gb:pass:" + strings.ReplaceAll(pass, " ", "-") }

const (
	shareKey      = "gb:share"
	tenantsKey    = "gb:tenants"
	pooledKey     = "gb:pooled"
	doneChannel   = "gb:done"
	runChannel    = "gb:run"
	cancelChannel = "gb:cancel"
	turnChannel   = "gb:turn:"   // then the worker's id
	eventsChannel = "gb:events:" // then the job's id
)
