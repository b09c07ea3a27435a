package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestBoundsOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, resources string
		want            bounds
		refused         string // part of the error
	}{
		{
			name:      "all",
			resources: `{"memory":{"limit":134217728},"cpu":{"quota":50000,"period":100000},"pids":{"limit":200}}`,
			want:      bounds{memory: "134217728", cpu: "50000 100000", pids: "200"},
		},
		{name: "none", resources: `{}`, refused: "without linux.resources."},
		{name: "no memory", resources: `{"cpu":{"quota":50000,"period":100000},"pids":{"limit":200}}`, refused: "memory.limit"},
		{name: "memory without end", resources: `{"memory":{"limit":-1},"cpu":{"quota":50000,"period":100000},"pids":{"limit":200}}`, refused: "memory.limit"},
		{name: "no cpu", resources: `{"memory":{"limit":1},"pids":{"limit":200}}`, refused: "cpu.quota"},
		{name: "no period", resources: `{"memory":{"limit":1},"cpu":{"quota":50000},"pids":{"limit":200}}`, refused: "cpu.quota"},
		{name: "no processes", resources: `{"memory":{"limit":1},"cpu":{"quota":50000,"period":100000}}`, refused: "pids.limit"},
		{name: "no end of processes", resources: `{"memory":{"limit":1},"cpu":{"quota":50000,"period":100000},"pids":{"limit":0}}`, refused: "pids.limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c config
			if err := json.Unmarshal([]byte(`{"linux":{"resources":`+tt.resources+`}}`), &c); err != nil {
				t.Fatal(err)
			}
			got, err := boundsOf(c)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("got %+v, %v, want an error with %q", got, err, tt.refused)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestCgroupOf(t *testing.T) {
	t.Parallel()
	if got, err := cgroupOf("/u", []string{"delete", ""}); err == nil {
		t.Errorf("no id: got %q", got)
	}
	for args, want := range map[string]string{
		"create --bundle /b abc": "/u/abc", "delete --force abc": "/u/abc",
		"create ../abc": "", "create ..": "", "create .": "", "create a/b": "",
	} {
		got, err := cgroupOf("/u", strings.Fields(args))
		if (err == nil) != (want != "") || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", args, got, err, want)
		}
	}
}
