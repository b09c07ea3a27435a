package producer

import (
	"net/url"
	"strings"
)

// Results is what follows a batch's path in the API where all its results are.
const Results = "results"

// FilePath is where the API has a file of a job, of that path as in [Files.Open].
func FilePath(id, path string) string { return JobPath(id) + "/" + escapePath(path) }

// BatchPath is where the API has a batch.
func BatchPath(id string) string { return "/v1/batches/" + url.PathEscape(id) }

// RunPath is where the API has a run of a pipeline.
func RunPath(id string) string { return runsPath + "/" + url.PathEscape(id) }

// JobPath is where the API has a job.
func JobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

// escapePath escapes all but the slashes.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
