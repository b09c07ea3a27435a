package judge0

import (
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/webhook"
)

// Defaults of submissions: Judge0's own, except for the memory, which some runtimes need more of.
const (
	defaultCPUTime   = 5.0  // s
	defaultExtraTime = 1.0  // s
	defaultWallTime  = 10.0 // s
	defaultMemory    = 256 << 10
	defaultStack     = 64_000 // kB
	defaultProcesses = 60
	defaultFileSize  = 1024 // kB
	defaultRuns      = 1
)

// Bounds of submissions that Judge0 has, too.
const (
	minWallTime  = 1.0
	maxExtraTime = 5.0
	minMemory    = 2048
	maxStack     = 128_000
	maxRuns      = 20
	// maxBatch is how many submissions a batch may have. Judge0's own is 20.
	maxBatch = 100
	// maxLine is how long options and arguments may be, in characters.
	maxLine = 512
	// maxFileSize bounds what is printed, in kB: it is Judge0's own bound, and what one answer has memory for.
	maxFileSize = 4096
	// maxCallback is how long a callback_url may be, in bytes.
	maxCallback = 2048
	// callbackTimeout is how long a receiver may take, in seconds (webhook.Config).
	callbackTimeout = 20.0
)

// bounds are what a submission may ask for at most, which the operator's settings decide. Their units are
// Judge0's: seconds, and kB of 1024 bytes.
type bounds struct {
	cpuTime, wallTime                  float64
	memory, stack, processes, fileSize int64
	cpuMS                              int64 // with the extra time
}

// boundsOf makes them of the most that the tenant's jobs may ask for.
func boundsOf(m job.Limits) bounds {
	const second = float64(time.Second / time.Millisecond)
	return bounds{
		cpuTime: float64(min(m.WallMS, m.CPUMS)) / second, wallTime: float64(m.WallMS) / second,
		memory: m.MemoryMB << 10, stack: min(m.StackMB<<10, maxStack), processes: m.Processes, fileSize: min(m.OutputKB, maxFileSize), cpuMS: m.CPUMS,
	}
}

// configInfo answers all of the settings that a client may look for: the Python SDK needs each.
func configInfo(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	list, err := readCatalog(r.Context(), c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	most, err := c.Client.TenantMaximums(r.Context())
	if err != nil {
		fail(w, r, c, err)
		return
	}
	b := boundsOf(most)
	writeJSON(w, http.StatusOK, map[string]any{
		"maintenance_mode": false, "enable_wait_result": true, "enable_compiler_options": true,
		"allowed_languages_for_compile_options": list.takingOptions(), "enable_command_line_arguments": true,
		"enable_submission_delete": true, "enable_callbacks": true, "callbacks_max_tries": len(webhook.DefaultSchedule().Delays), "callbacks_timeout": callbackTimeout,
		"enable_additional_files": true, "max_queue_size": maxQueue, "max_extract_size": maxExtract >> 10,
		"enable_batched_submissions": true, "max_submission_batch_size": maxBatch, "submission_cache_duration": 0.0,
		"use_docs_as_homepage": false, "allow_enable_network": false, "enable_network": false, "redirect_stderr_to_stdout": false,
		"cpu_time_limit": min(defaultCPUTime, b.cpuTime), "max_cpu_time_limit": b.cpuTime,
		"cpu_extra_time": defaultExtraTime, "max_cpu_extra_time": maxExtraTime,
		"wall_time_limit": min(defaultWallTime, b.wallTime), "max_wall_time_limit": b.wallTime,
		"memory_limit": min(defaultMemory, b.memory), "max_memory_limit": b.memory,
		"stack_limit": min(defaultStack, b.stack), "max_stack_limit": b.stack,
		"max_processes_and_or_threads": min(defaultProcesses, b.processes), "max_max_processes_and_or_threads": b.processes,
		"enable_per_process_and_thread_time_limit": false, "allow_enable_per_process_and_thread_time_limit": false,
		"enable_per_process_and_thread_memory_limit": false, "allow_enable_per_process_and_thread_memory_limit": false,
		"max_file_size": min(defaultFileSize, b.fileSize), "max_max_file_size": b.fileSize,
		"number_of_runs": defaultRuns, "max_number_of_runs": maxRuns,
	})
}

// maxQueue is what clients are told of how many submissions may wait: what a tenant's quota allows is the
// operator's affair, and answered with 503.
const maxQueue = 20_000
