package version

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	t.Parallel()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	release := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "545772d"},
			{Key: "vcs.time", Value: "2026-11-22T19:07:00Z"},
			{Key: "vcs.modified", Value: "false"},
		},
	}
	changed := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.1.0+dirty"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "545772d"}, {Key: "vcs.modified", Value: "true"}},
	}
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"a release":         {release, "x v0.1.0\ncommit   545772d\ndate     2026-11-22T19:07:00Z\n"},
		"a tree in changes": {changed, "x v0.1.0+dirty\ncommit   545772d, and changes\n"},
		"no repository":     {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "x (devel)\n"},
		"nothing known":     {&debug.BuildInfo{}, "x unknown\n"},
	} {
		want := c.want + "go       " + runtime.Version() + " " + platform + "\n"
		if got := of(c.info).Text("x"); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}

	var out strings.Builder
	if err := of(release).Write(&out, "x", true); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for key, want := range map[string]string{
		"version": "v0.1.0", "commit": "545772d", "date": "2026-11-22T19:07:00Z", "go": runtime.Version(), "platform": platform,
	} {
		if got[key] != want {
			t.Errorf("JSON: %s is %q, want %q", key, got[key], want)
		}
	}
}

func TestAsked(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][2]bool{
		"":                       {},
		"version":                {true, false},
		"--version":              {true, false},
		"--version --json":       {true, true},
		"version --json":         {true, true},
		"--json":                 {},
		"version --yaml":         {false, true},
		"version --json --json":  {},
		"--root=/run --version":  {},
		"--require-cgroups more": {},
	} {
		if asked, asJSON := Asked(strings.Fields(args)); asked != want[0] || asked && asJSON != want[1] {
			t.Errorf("%q: got %t, %t, want %v", args, asked, asJSON, want)
		}
	}
}
