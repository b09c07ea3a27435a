package producer

import (
	"context"
	"net/http"

	"github.com/glovebox-run/glovebox/job"
)

// Catalog lists what jobs can run on. It is safe for concurrent use.
type Catalog interface {
	// Runtimes lists the languages that workers have published, by name.
	Runtimes(ctx context.Context) ([]Runtime, error)
	// Images lists the images of one's own that the operator allows and workers have.
	Images(ctx context.Context) ([]Image, error)
}

var _ Catalog = (*Client)(nil)

// Runtime is a language that jobs can name.
type Runtime struct {
	Name        string   `json:"name" doc:"What a job's runtime names." example:"python"`
	Version     string   `json:"version" doc:"Version of the language." example:"3.13"`
	Aliases     []string `json:"aliases" doc:"Other names for it." nullable:"false"`
	Image       string   `json:"image" doc:"The container image that jobs run in."`
	ImageDigest string   `json:"image_digest" doc:"Digest of that image."`
	// Limits are the defaults of jobs on this runtime.
	Limits job.Limits `json:"limits" doc:"Defaults of jobs on this runtime."`
	// Compiles says that programs are compiled before they run.
	Compiles bool `json:"compiles" doc:"Whether programs are compiled before they run."`
	// Isolation is what its jobs are isolated by, where that is less than gVisor.
	Isolation job.Isolation `json:"isolation,omitempty" doc:"What its jobs are isolated by, where that is less than gVisor: only jobs that accept it (isolation) run there."`
	// Sessions says whether it has sessions. Languages are those that contexts of these can have, its own first; none without sessions.
	Sessions  bool     `json:"sessions" doc:"Whether it has sessions."`
	Languages []string `json:"languages" doc:"Languages that contexts of its sessions can have, its own first; empty without sessions." nullable:"false"`
	Warm      int      `json:"warm" doc:"Sandboxes that wait started."`
}

// Image is an image that jobs can bring, instead of a runtime.
type Image struct {
	Image string `json:"image" doc:"What a job's image names." example:"registry.example.com/team/tool@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`
}

// Runtimes is [Catalog.Runtimes].
func (c *Client) Runtimes(ctx context.Context) ([]Runtime, error) {
	var list struct {
		Runtimes []Runtime `json:"runtimes"`
	}
	err := c.json(ctx, http.MethodGet, "/v1/runtimes", 0, nil, &list)
	return list.Runtimes, err
}

// Images is [Catalog.Images].
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	var list struct {
		Images []Image `json:"images"`
	}
	err := c.json(ctx, http.MethodGet, "/v1/runtimes", 0, nil, &list)
	return list.Images, err
}
