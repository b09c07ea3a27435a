package main

import (
	"slices"
	"strings"
	"testing"
)

func TestRunscArgs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		args    string
		globals string // what stands before the fixed flags
		rest    string // what stands after them
		refused string // part of the error
	}{
		{name: "nothing"},
		{name: "version", args: "--version", globals: "--version"},
		{name: "command", args: "state abc", rest: "state abc"},
		{name: "conmon's create", args: "--log-format=json --log=/x/log create --bundle /b --pid-file /p abc", globals: "--log-format=json --log=/x/log", rest: "create --bundle /b --pid-file /p abc"},
		{name: "value apart", args: "--log /x/log --root /r kill abc 9", globals: "--log /x/log --root /r", rest: "kill abc 9"},
		{name: "value that looks like a flag", args: "--log --network=host start abc", globals: "--log --network=host", rest: "start abc"},
		{name: "flags after the command are its own", args: "delete --force abc", rest: "delete --force abc"},
		{name: "flags of ours after the command", args: "create --network=host abc", rest: "create --network=host abc"},
		{name: "network", args: "--network=host create abc", refused: "--network=host"},
		{name: "network, one dash", args: "-network=host create abc", refused: "-network=host"},
		{name: "platform", args: "--log=/l --platform ptrace create abc", refused: "--platform"},
		{name: "flag override", args: "--allow-flag-override create abc", refused: "--allow-flag-override"},
		{name: "systemd", args: "--systemd-cgroup create abc", refused: "--systemd-cgroup"},
		{name: "end of flags", args: "-- create abc", refused: `"--"`},
		{name: "three dashes", args: "---network=host create abc", refused: "---network"},
		{name: "lone dash", args: "- create", refused: `"-"`},
		{name: "no value", args: "--log", refused: "lacks its value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			globals, rest, err := splitGlobals(strings.Fields(tt.args))
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Fatalf("got %q %q, %v, want an error with %q", globals, rest, err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := runscArgs(globals, rest)
			want := slices.Concat([]string{"runsc"}, strings.Fields(tt.globals), fixedFlags, strings.Fields(tt.rest))
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
