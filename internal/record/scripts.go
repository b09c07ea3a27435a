package record

import "github.com/glovebox-run/glovebox/job"

// The scripts, one file of lua/ each. Each takes the time from its caller, and is safe to come
// late or twice; its header says what it is given and answers. docs/redis.md has them all.
var (
	// Jobs.
	createScript    = load("create")
	startScript     = load("start")
	endScript       = load("end")
	cancelScript    = load("cancel")
	requeueScript   = load("requeue")
	unofferedScript = load("unoffered")
	releaseScript   = load("release")
	claimScript     = load("claim")
	publishScript   = load("publish")
	watchScript     = load("watch")

	// What is kept.
	purgeScript         = load("purge")
	lookWhileKeptScript = load("look_while_kept")
	forgetScript        = load("forget")
	holdUploadScript    = load("hold_upload")
	claimUploadScript   = load("claim_upload")

	// Batches and deliveries.
	openBatchScript   = load("open_batch")
	renewBatchScript  = load("renew_batch")
	rejectScript      = load("reject")
	sealBatchScript   = load("seal_batch")
	cancelBatchScript = load("cancel_batch")
	deliverScript     = load("deliver")

	// Tenants.
	createTenantScript  = load("create_tenant")
	setTermsScript      = load("set_terms")
	addTokenScript      = load("add_token")
	setSecretScript     = load("set_secret")
	rotateSigningScript = load("rotate_signing")
	takeRequestScript   = load("take_request")
)

// constants are the numbers of Go that scripts know by name. A duration is in ms.
var constants = map[string]any{
	"delivery_cost":      deliveryCost,
	"deliveries_in_line": deliveriesInLine,
	"event_cost":         eventCost,
	"event_life":         eventLife,
	"event_patience":     eventPatience,
	"expired_delay":      expiredDelay,
	"fault_cost":         faultCost,
	"item_cost":          itemCost,
	"key_cost":           keyCost,
	"key_life":           keyLife,
	"least_unoffered":    leastUnoffered,
	"lend_cost":          lendCost,
	"max_batch_errors":   job.MaxBatchErrors,
	"max_event_bytes":    maxEventBytes,
	"max_secrets":        job.MaxSecrets,
	"max_tokens":         job.MaxTokens,
	"most_unoffered":     mostUnoffered,
	"outage_patience":    outagePatience,
	"page":               page,
	"rate_window":        RateWindow.Microseconds(),
	"unoffered_patience": unofferedPatience,
	"unwatched_life":     unwatchedLife,
	"upload_cost":        uploadCost,
}
