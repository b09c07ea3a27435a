package producer

import (
	"net/url"
	"strings"
)

// What there is to [Jobs.Open] besides artifacts.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// ArtifactPath is what [Jobs.Open] calls the artifact of that name.
func ArtifactPath(name string) string { return artifactDir + name }

const artifactDir = "artifacts/"

// Results is what follows a batch's path in the API where all its results are.
const Results = "results"

// FilePath is where the API has a file of a job, of that path as in [Jobs.Open].
func FilePath(id, path string) string { return jobPath(id) + "/" + escapePath(path) }

// BatchPath is where the API has a batch.
func BatchPath(id string) string { return "/v1/batches/" + url.PathEscape(id) }

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

// escapePath escapes all but the slashes.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
