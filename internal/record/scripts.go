package record

import (
	"context"
	"embed"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

//go:embed lua
var luaFiles embed.FS

// The scripts, one file of lua/ each. Each takes the time from its caller, and is safe to come
// late or twice; its header says what it is given and answers. docs/redis.md has them all.
var (
	// Jobs.
	createScript    = scripts.Load("create")
	startScript     = scripts.Load("start")
	endScript       = scripts.Load("end")
	cancelScript    = scripts.Load("cancel")
	requeueScript   = scripts.Load("requeue")
	unofferedScript = scripts.Load("unoffered")
	releaseScript   = scripts.Load("release")
	claimScript     = scripts.Load("claim")
	publishScript   = scripts.Load("publish")
	watchScript     = scripts.Load("watch")

	// What is kept.
	purgeScript       = scripts.Load("purge")
	recheckKeptScript = scripts.Load("recheck_kept")
	forgetScript      = scripts.Load("forget")
	holdUploadScript  = scripts.Load("hold_upload")
	claimUploadScript = scripts.Load("claim_upload")

	// Batches and deliveries.
	openBatchScript   = scripts.Load("open_batch")
	renewBatchScript  = scripts.Load("renew_batch")
	rejectScript      = scripts.Load("reject")
	sealBatchScript   = scripts.Load("seal_batch")
	cancelBatchScript = scripts.Load("cancel_batch")
	deliverScript     = scripts.Load("deliver")

	// Tenants.
	createTenantScript  = scripts.Load("create_tenant")
	setTermsScript      = scripts.Load("set_terms")
	addTokenScript      = scripts.Load("add_token")
	rotateSigningScript = scripts.Load("rotate_signing")
	takeRequestScript   = scripts.Load("take_request")
)

// scripts are those of lua/. The numbers are constants here.
var scripts = script.New(luaFiles, map[string]any{
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
	"max_tokens":         job.MaxTokens,
	"most_unoffered":     mostUnoffered,
	"outage_patience":    outagePatience,
	"page":               page,
	"rate_window":        RateWindow.Microseconds(),
	"unoffered_patience": unofferedPatience,
	"unwatched_life":     unwatchedLife,
	"upload_cost":        uploadCost,
})

// runEach runs a script for each of these tenants, in one round trip and one to load it.
func runEach(ctx context.Context, s *Store, run *script.Script, tenants []string, of func(tenant string) script.Args, rest ...any) ([]*redis.Cmd, error) {
	if err := run.Load(ctx, s.rdb); err != nil {
		return nil, err
	}
	return redisconn.Ask(ctx, s.rdb, tenants, func(pipe redis.Pipeliner, tenant string) *redis.Cmd {
		return run.Pipe(ctx, pipe, tenant, of(tenant), rest...)
	})
}
