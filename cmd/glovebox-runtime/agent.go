package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// agentPrefix begins the names of images that hold an agent.
	agentPrefix = "agent-"
	// agentAge is how long an image that nobody uses stays: workers of two versions may
	// share a Podman.
	agentAge = 24 * time.Hour
	// makeTimeout bounds the making of an image, which takes a hundredth of a second.
	makeTimeout = 30 * time.Second
)

// agentImage returns the path of an image that holds the agent as agentFile. The first sandbox
// that needs one makes it; its name identifies the agent's file.
func agentImage(dir, path string) (string, error) {
	agent, err := os.Open(path) // and it stays this file, should another take its place
	if err != nil {
		return "", fmt.Errorf("find the agent: %w", err)
	}
	defer agent.Close()
	info, err := agent.Stat()
	if err != nil {
		return "", fmt.Errorf("find the agent: %w", err)
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("find the agent: its device is unknown")
	}
	image := filepath.Join(dir, fmt.Sprintf("%s%x-%x-%x-%x.erofs", agentPrefix, s.Dev, s.Ino, s.Size, info.ModTime().UnixNano()))
	made, err := os.Stat(image)
	if err == nil && time.Since(made.ModTime()) > agentAge/2 {
		return image, os.Chtimes(image, time.Time{}, time.Now()) // or removeUnused takes it for unused
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return image, err
	}
	if err := makeAgentImage(dir, agent, image); err != nil {
		return "", fmt.Errorf("make the agent's image: %w", err)
	}
	return image, nil
}

func makeAgentImage(dir string, agent io.Reader, image string) error {
	work, err := os.MkdirTemp(dir, agentPrefix+"new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	inside, made := filepath.Join(work, "root"), filepath.Join(work, "image")
	if err := os.Mkdir(inside, 0o755); err != nil {
		return err
	}
	if err := writeProgram(filepath.Join(inside, agentFile), agent); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "mkfs.erofs", "-Enoinline_data", "-T0", "--all-root", made, inside).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := syncFile(made); err != nil { // before it has its name: a file of that name is trusted
		return err
	}
	if err := os.Rename(made, image); err != nil {
		return err
	}
	removeUnused(dir)
	return nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func writeProgram(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// removeUnused removes images of agents that were not used for agentAge, and what a killed
// process left of one. A sandbox keeps its own open.
func removeUnused(dir string) {
	images, _ := filepath.Glob(filepath.Join(dir, agentPrefix+"*"))
	for _, image := range images {
		if info, err := os.Stat(image); err == nil && time.Since(info.ModTime()) > agentAge {
			_ = os.RemoveAll(image) // the next sandbox tries again
		}
	}
}
