package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// Client is what the command line talks to, and with which secrets.
type Client struct {
	// URL of the API, without a slash at the end.
	URL string
	// Token is presented to it, AdminToken where tenants are concerned.
	Token, AdminToken string
	// WebhookSecret is what verifies what a receiver receives: secrets and public keys of
	// its tenant, with spaces between.
	WebhookSecret string
	// PodmanUser runs Podman where we are root.
	PodmanUser string
	// Isolation is the least that jobs accept which say nothing: of the file that the URL is from.
	Isolation string
	// From names where the URL was found: "--url", "GLOVEBOX_URL", or a file's path.
	From string
}

// FindClient looks for each setting in the environment first, then in
// data/env (which dev writes into its data directory), then in
// home/.config/glovebox/env. url, where given, comes before
// all of them. Settings that are nowhere stay empty: which of them a command needs is
// its own business.
//
// A token from a file goes only to the URL of that file, so that a token which dev
// made is never presented to some other server that GLOVEBOX_URL or --url names.
func FindClient(url string, getenv Getenv, data, home string) (Client, error) {
	r := NewReader(getenv)
	c := Client{
		URL: strings.TrimSuffix(r.String("GLOVEBOX_URL", ""), "/"), Token: r.Secret("GLOVEBOX_TOKEN"), AdminToken: r.Secret("GLOVEBOX_ADMIN_TOKEN"),
		WebhookSecret: r.Secret("GLOVEBOX_WEBHOOK_SECRET"), PodmanUser: r.String("GLOVEBOX_PODMAN_USER", ""),
		From: "GLOVEBOX_URL",
	}
	if url != "" {
		c.URL, c.From = strings.TrimSuffix(url, "/"), "--url"
	}
	r.CheckURL(c.From, c.URL)
	if err := r.Err(); err != nil {
		return Client{}, err
	}
	paths := []string{filepath.Join(data, "env")}
	if home != "" {
		paths = append(paths, filepath.Join(home, ".config", "glovebox", "env"))
	}
	for _, path := range paths {
		file, err := ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Client{}, err
		}
		if err := c.fill(path, file); err != nil {
			return Client{}, err
		}
	}
	return c, nil
}

// fill takes what is still empty from file.
func (c *Client) fill(path string, file File) error {
	r := NewReader(file.Get)
	url := strings.TrimSuffix(r.String("GLOVEBOX_URL", ""), "/")
	r.CheckURL("GLOVEBOX_URL", url)
	if c.URL == "" && url != "" {
		c.URL, c.From = url, path
	}
	if c.Token == "" && c.URL == url {
		c.Token = r.Secret("GLOVEBOX_TOKEN")
	}
	if c.AdminToken == "" && c.URL == url {
		c.AdminToken = r.Secret("GLOVEBOX_ADMIN_TOKEN")
	}
	if c.From == path {
		c.Isolation = r.String("GLOVEBOX_ISOLATION", "")
	}
	if c.WebhookSecret == "" {
		c.WebhookSecret = r.Secret("GLOVEBOX_WEBHOOK_SECRET")
	}
	if c.PodmanUser == "" {
		c.PodmanUser = r.String("GLOVEBOX_PODMAN_USER", "")
	}
	if err := r.Err(); err != nil {
		return errors.Join(errors.New("in "+path+":"), err)
	}
	return nil
}
