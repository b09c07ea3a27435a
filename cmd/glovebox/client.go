package main

import (
	"errors"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/producer"
)

// settings finds what the command line talks to, from here.
func (a *app) settings() (config.Client, error) {
	data := a.getenv("GLOVEBOX_DATA")
	if data == "" {
		data = defaultData
	}
	c, err := config.FindClient(a.url, a.getenv, data, a.getenv("HOME"))
	if err != nil {
		return c, &failure{code: exitUsage, err: err}
	}
	return c, nil
}

// jobs is the API as a tenant sees it. The caller closes it.
func (a *app) jobs() (*producer.Client, error) {
	return a.connect(func(c config.Client) string { return c.Token }, "GLOVEBOX_TOKEN")
}

// withJobs calls do with the API as a tenant sees it.
func (a *app) withJobs(do func(*producer.Client) error) error { return with(a.jobs, do) }

// with calls do with the API that open returns, and closes it.
func with(open func() (*producer.Client, error), do func(*producer.Client) error) error {
	api, err := open()
	if err != nil {
		return err
	}
	defer api.Close()
	return do(api)
}

// connect returns the API, with one of the tokens that the settings have. variable is
// the name of that one.
func (a *app) connect(which func(config.Client) string, variable string) (*producer.Client, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	a.token = variable
	if c.URL == "" {
		return nil, &failure{
			exitUsage, errors.New("no Glovebox to talk to: neither --url nor GLOVEBOX_URL is given, and there is no env file"),
			`start one here with "glovebox dev", or set GLOVEBOX_URL and ` + variable,
		}
	}
	token := which(c)
	if token == "" {
		return nil, &failure{
			exitUsage, errors.New("no token for " + c.URL + " (which comes from " + c.From + ")"),
			"set " + variable + "; a token in an env file is only for the URL in the same file",
		}
	}
	return producer.New(c.URL, token)
}
