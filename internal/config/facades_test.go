package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestFacades(t *testing.T) {
	t.Parallel()
	a, err := ReadAPI(with(apiEnv(), File{
		"GLOVEBOX_FACADES": "judge0, jobe,judge0", "GLOVEBOX_FACADE_ADDRESSES": "judge0=127.0.0.1:2358", "GLOVEBOX_FACADE_TENANT": "guests",
		"GLOVEBOX_FACADE_WAIT_SECONDS": "90",
	}).Get)
	if err != nil || fmt.Sprintf("%v %v %s %s", a.Facades, a.FacadeAddresses, a.FacadeTenant, a.FacadeWait) != "[judge0 jobe] map[judge0:127.0.0.1:2358] guests 1m30s" {
		t.Errorf("got %v %v %q %s, %v", a.Facades, a.FacadeAddresses, a.FacadeTenant, a.FacadeWait, err)
	}
	if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "whoever reaches judge0, jobe runs code as the tenant guests") {
		t.Errorf("got warnings %q, want one that says who may run code", a.Warnings)
	}
	if a, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_FACADE_TENANT": "guests"}).Get); err != nil || len(a.Facades) != 0 || len(a.Warnings) != 0 {
		t.Errorf("none: got %v, %q, %v", a.Facades, a.Warnings, err)
	}
	for name, value := range map[string]string{
		"GLOVEBOX_FACADES": "judge1", "GLOVEBOX_FACADE_ADDRESSES": "judge0=127.0.0.1:2358", "GLOVEBOX_FACADE_TENANT": "No Tenant",
		"GLOVEBOX_FACADE_WAIT_SECONDS": "3601",
	} {
		if _, err := ReadAPI(with(apiEnv(), File{name: value}).Get); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: got %v, want an error that names it", name, value, err)
		}
	}
	twice := File{"GLOVEBOX_FACADES": "judge0", "GLOVEBOX_FACADE_ADDRESSES": "judge0=127.0.0.1:2358,judge0=127.0.0.1:2359"}
	if _, err := ReadAPI(with(apiEnv(), twice).Get); err == nil || !strings.Contains(err.Error(), "two addresses") {
		t.Errorf("two addresses: got %v", err)
	}
}

// TestAnonymousAbroad: whoever runs code without a token is to be on this machine, in dev.
func TestAnonymousAbroad(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tenant, addresses, api, want string }{
		{"", "jobe=0.0.0.0:4000", "0.0.0.0:8437", ""}, // who has no token is refused there
		{"guests", "", "127.0.0.1:0", ""},
		{"guests", "jobe=[::1]:4000, e2b=localhost:49999", "127.1.2.3:8437", ""},
		{"guests", "", ":8437", ":8437"},
		{"guests", "jobe=0.0.0.0:4000,e2b=127.0.0.1:49999", "glovebox.example.com:8437", "glovebox.example.com:8437 0.0.0.0:4000"},
		{"guests", "jobe=fd:3", "[::]:8437", "[::]:8437 fd:3"},
	} {
		r := NewReader(File{"GLOVEBOX_FACADE_TENANT": tt.tenant, "GLOVEBOX_FACADE_ADDRESSES": tt.addresses}.Get)
		if got := strings.Join(r.AnonymousAbroad(tt.api), " "); got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
}
