package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// printOutput prints what the job printed, each stream to its own.
func (a *app) printOutput(ctx context.Context, files producer.Files, r job.Result) error {
	for _, s := range []struct {
		name, text, url string
		to              io.Writer
	}{
		{producer.Stdout, r.Stdout, r.StdoutURL, a.stdout},
		{producer.Stderr, r.Stderr, r.StderrURL, a.stderr},
	} {
		if err := printStream(ctx, files, r.ID, s.name, s.text, s.url, untrusted(s.to)); err != nil {
			return err
		}
	}
	return nil
}

// printStream prints the text that the result holds, or the whole where that is longer.
func printStream(ctx context.Context, files producer.Files, id, name, text, url string, to io.Writer) error {
	if url == "" {
		_, err := io.WriteString(to, text)
		return err
	}
	whole, err := files.Open(ctx, id, name)
	if err != nil {
		return fmt.Errorf("read %s of the job: %w", name, err)
	}
	defer whole.Close()
	if _, err := io.Copy(to, whole); err != nil {
		return fmt.Errorf("read %s of the job: %w", name, err)
	}
	return nil
}

// account says in a few lines how a job went, and what it left, each file with a remark.
func account(w io.Writer, r job.Result, remark func(job.Artifact) string) {
	fmt.Fprintf(w, "%s %s\n", headline(r), timing(r))
	if r.Compile != nil && r.Compile.ExitCode != 0 {
		fmt.Fprintf(w, "  compiler (exit code %d):\n%s\n", r.Compile.ExitCode, indent(string(showControls([]byte(r.Compile.Output)))))
	}
	if r.Error != nil {
		fmt.Fprintf(w, "  %s\n", plain(r.Error.Message))
	}
	for _, s := range []struct {
		name      string
		truncated bool
	}{{"standard output", r.StdoutTruncated}, {"standard error", r.StderrTruncated}} {
		if s.truncated {
			fmt.Fprintf(w, "  %s was cut at output_kb\n", s.name)
		}
	}
	listArtifacts(w, r, remark)
}

// listArtifacts lists what a job left, each with a remark, and what was not kept.
func listArtifacts(w io.Writer, r job.Result, remark func(job.Artifact) string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, a := range r.Artifacts {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", plain(a.Name), plain(a.MediaType), bytesOf(a.Size), remark(a))
	}
	_ = t.Flush() // the terminal is gone: nobody to tell
	for _, s := range r.ArtifactsSkipped {
		fmt.Fprintf(w, "  not kept: %s: %s\n", plain(s.Name), plain(s.Reason))
	}
	if more := r.ArtifactsSkippedTotal - len(r.ArtifactsSkipped); more > 0 {
		fmt.Fprintf(w, "  not kept: %d more\n", more)
	}
}

// headline is the status, and why: "failed (exit code 3)".
func headline(r job.Result) string {
	s := strings.ReplaceAll(string(r.Status), "_", " ")
	switch {
	case r.Signal != "":
		s += " (" + plain(r.Signal) + ")"
	case r.ExitCode != nil && *r.ExitCode != 0:
		s += fmt.Sprintf(" (exit code %d)", *r.ExitCode)
	}
	return s
}

// timing is where a job's time went.
func timing(r job.Result) string {
	if r.ExitCode == nil { // nothing ran to an end
		return ""
	}
	parts := []string{
		"queued " + milliseconds(r.Timing.QueueMS), "sandbox " + milliseconds(r.Timing.StartupMS), "cpu " + milliseconds(r.Usage.CPUMS),
	}
	if r.Usage.MemoryPeakBytes > 0 {
		parts = append(parts, "memory "+bytesOf(r.Usage.MemoryPeakBytes))
	}
	if r.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", r.Attempt))
	}
	return fmt.Sprintf("in %s (%s)", milliseconds(r.Usage.WallMS), strings.Join(parts, ", "))
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}
