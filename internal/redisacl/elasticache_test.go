package redisacl_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/redisacl"
)

var update = flag.Bool("update", false, "write terraform/redis-users.json anew")

// userFile is what terraform/redis.tf reads. In the worker's access string, WORKER stands for
// the name of a pool of workers: no pattern has capital letters.
const userFile = "../../terraform/redis-users.json"

var elastiCacheUsers = map[string]redisacl.User{
	"api":      {Role: redisacl.API},
	"metrics":  {Role: redisacl.Metrics},
	"operator": {Role: redisacl.Admin},
	"worker":   {Role: redisacl.Worker, Worker: "WORKER"},
}

// TestElastiCacheUsers: the users of the Terraform module are those of the table.
func TestElastiCacheUsers(t *testing.T) {
	t.Parallel()
	users := map[string]string{}
	for name, user := range elastiCacheUsers {
		users[name] = user.AccessString()
	}
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(users); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(userFile, want.Bytes(), 0o644); err != nil { //nolint:gosec // a source file
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(userFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("%s is not what table.go says: go test ./internal/redisacl -run TestElastiCacheUsers -update; (-want +got)\n%s", userFile, diff)
	}
}

// notInAccessStrings are what ElastiCache refuses in an access string: passwords, and words
// and commands that it keeps for itself.
var notInAccessStrings = []string{
	"reset", "nopass", "resetpass", "+config", "+debug", "+save", "+bgsave", "+bgrewriteaof", "+shutdown", "+replicaof", "+slaveof",
	"+psync", "+sync", "+migrate", "+cluster", "+acl|setuser", "+acl|deluser", "+acl|load", "+acl|save",
}

// TestAccessStrings: a real Redis takes an access string as the same rights as [User.Rules].
func TestAccessStrings(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	admin := client(t, server.Admin())
	rights := func(rules string) string {
		t.Helper()
		args := []any{"ACL", "SETUSER", "other"}
		for word := range strings.FieldsSeq(rules) {
			args = append(args, word)
		}
		if err := admin.Do(t.Context(), "ACL", "DELUSER", "other").Err(); err != nil {
			t.Fatal(err)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", rules, err)
		}
		list, err := admin.Do(t.Context(), "ACL", "LIST").StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range list {
			if own, ok := strings.CutPrefix(line, "user other "); ok {
				return own
			}
		}
		t.Fatal("the user was not made")
		return ""
	}
	for name, user := range elastiCacheUsers {
		if user.Worker != "" {
			user.Worker = "pool"
		}
		access := user.AccessString()
		for _, word := range strings.Fields(access) {
			for _, refused := range notInAccessStrings {
				if word == refused || strings.HasPrefix(word, "#") || strings.HasPrefix(word, ">") {
					t.Errorf("%s: ElastiCache refuses %s", name, word)
				}
			}
		}
		want := rights(user.Rules("password"))
		got := rights("reset " + access + " >password")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: rights differ (-rules +access string)\n%s", name, diff)
		}
	}
}
