package config

import "net/url"

// CheckURL adds a fault unless v is empty, or an http or https URL of a host and
// perhaps a path.
func (r *Reader) CheckURL(name, v string) {
	if v == "" {
		return
	}
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		r.Fault(name, "is no http or https URL: want one such as http://127.0.0.1:8437")
	}
}
