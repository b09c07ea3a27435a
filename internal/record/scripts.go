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
	createScript     = scripts.Load("create")
	startScript      = scripts.Load("start")
	endScript        = scripts.Load("end")
	cancelScript     = scripts.Load("cancel")
	requeueScript    = scripts.Load("requeue")
	unofferedScript  = scripts.Load("unoffered")
	releaseScript    = scripts.Load("release")
	readPoolsScript  = scripts.Load("read_pools")
	setWindowsScript = scripts.Load("set_windows")
	claimScript      = scripts.Load("claim")
	approveScript    = scripts.Load("approve")
	publishScript    = scripts.Load("publish")
	watchScript      = scripts.Load("watch")
	sendInputScript  = scripts.Load("send_input")

	// Sessions.
	openSessionScript    = scripts.Load("open_session")
	claimSessionScript   = scripts.Load("claim_session")
	forkSessionScript    = scripts.Load("fork_session")
	giveBackScript       = scripts.Load("give_back_session")
	turnScript           = scripts.Load("turn")
	takeTurnScript       = scripts.Load("take_turn")
	changeSessionScript  = scripts.Load("change_session")
	sessionTimeScript    = scripts.Load("session_time")
	endSessionScript     = scripts.Load("end_session")
	settleSessionScript  = scripts.Load("settle_session")
	makeContextScript    = scripts.Load("make_context")
	forgetContextScript  = scripts.Load("forget_context")
	restartContextScript = scripts.Load("restart_context")
	purgeSessionScript   = scripts.Load("purge_session")

	// What is kept.
	purgeScript       = scripts.Load("purge")
	recheckKeptScript = scripts.Load("recheck_kept")
	forgetScript      = scripts.Load("forget")
	holdUploadScript  = scripts.Load("hold_upload")
	claimUploadScript = scripts.Load("claim_upload")
	nameFileScript    = scripts.Load("name_file")

	// Batches.
	openBatchScript   = scripts.Load("open_batch")
	renewBatchScript  = scripts.Load("renew_batch")
	rejectScript      = scripts.Load("reject")
	sealBatchScript   = scripts.Load("seal_batch")
	cancelBatchScript = scripts.Load("cancel_batch")

	// Deliveries and endpoints.
	takeDeliveryScript = scripts.Load("take_delivery")
	deliverScript      = scripts.Load("deliver")
	putOffScript       = scripts.Load("put_off")
	redeliverScript    = scripts.Load("redeliver")
	fanOutScript       = scripts.Load("fan_out")
	backfillScript     = scripts.Load("backfill")
	setEndpointScript  = scripts.Load("set_endpoint")
	testEndpointScript = scripts.Load("test_endpoint")

	// Tenants.
	createTenantScript  = scripts.Load("create_tenant")
	setTermsScript      = scripts.Load("set_terms")
	addTokenScript      = scripts.Load("add_token")
	rotateSigningScript = scripts.Load("rotate_signing")
	takeRequestScript   = scripts.Load("take_request")

	// Templates, problems and hooks.
	setTemplateScript    = scripts.Load("set_template")
	deleteTemplateScript = scripts.Load("delete_template")
	setProblemScript     = scripts.Load("set_problem")
	deleteProblemScript  = scripts.Load("delete_problem")
	setHookScript        = scripts.Load("set_hook")
	deleteHookScript     = scripts.Load("delete_hook")
	claimDeliveryScript  = scripts.Load("claim_delivery")
	settleDeliveryScript = scripts.Load("settle_delivery")

	// Runs of pipelines.
	openRunScript   = scripts.Load("open_run")
	noteRunScript   = scripts.Load("note_run")
	settleRunScript = scripts.Load("settle_run")
	endRunScript    = scripts.Load("end_run")
	cancelRunScript = scripts.Load("cancel_run")

	// Schedules.
	setScheduleScript    = scripts.Load("set_schedule")
	deleteScheduleScript = scripts.Load("delete_schedule")
	noteFireScript       = scripts.Load("note_fire")
)

// scripts are those of lua/. The numbers are constants here.
var scripts = script.New(luaFiles, map[string]any{
	"context_cost":           contextCost,
	"delivery_cost":          deliveryCost,
	"deliveries_in_line":     deliveriesInLine,
	"delivery_check":         deliveryCheck,
	"delivery_log":           deliveryLog,
	"disable_after":          disableAfter,
	"endpoint_delivery_cost": endpointDeliveryCost,
	"endpoint_failed":        endpointFailed,
	"endpoint_log":           endpointLog,
	"event_cost":             eventCost,
	"event_life":             eventLife,
	"event_patience":         eventPatience,
	"expired_delay":          expiredDelay,
	"failing_gap":            failingGap,
	"fault_cost":             faultCost,
	"flight_life":            flightLife,
	"most_read":              mostPoolsRead,
	"share_renew":            shareLife / 2,
	"item_cost":              itemCost,
	"key_cost":               keyCost,
	"key_life":               keyLife,
	"least_unoffered":        leastUnoffered,
	"lane_life":              laneLife,
	"lend_cost":              lendCost,
	"max_batch_errors":       job.MaxBatchErrors,
	"max_contexts":           job.MaxContexts,
	"max_endpoints":          job.MaxEndpoints,
	"max_event_bytes":        maxEventBytes,
	"max_tokens":             job.MaxTokens,
	"most_unoffered":         mostUnoffered,
	"outage_gap":             outageGap,
	"outage_patience":        outagePatience,
	"page":                   page,
	"probe_interval":         probeInterval,
	"run_item_cost":          runItemCost,
	"run_most":               runMost,
	"small_verdict":          1 << 10,
	"rate_window":            RateWindow.Microseconds(),
	"unoffered_gap":          unofferedGap,
	"unoffered_patience":     unofferedPatience,
	"unwatched_life":         unwatchedLife,
	"max_input_total":        job.MaxInputTotal,
	"input_cost":             job.InputCost,
	"input_reserve":          inputReserve,
	"input_patience":         inputPatience,
	"usage_life":             job.UsageLife,
	"placed_usage_life":      2 * day,
	"upload_cost":            uploadCost,
	"most_names":             mostNames,
	"name_life":              nameLife,
	"hook_memory":            job.HookMemory,
	"max_hooks":              job.MaxHooks,
	"max_problems":           job.MaxProblems,
	"problem_cost":           problemCost,
	"pin_cost":               pinCost,
	"graded_slack":           gradedSlack,
	"graded_cost":            gradedCost,
	"most_graded":            mostGraded,
	"most_pools":             mostPools,
	"most_whys":              mostWhys,
	"max_schedules":          job.MaxSchedules,
	"max_fires":              maxFires,
	"max_hook_deliveries":    maxHookDeliveries,
	"max_templates":          job.MaxTemplates,
	"max_template_revisions": job.MaxTemplateRevisions,
	"max_templates_bytes":    job.MaxTemplatesBytes,
	"max_last_revisions":     maxLastRevisions,
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
