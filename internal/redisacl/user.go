// Package redisacl says what each of Glovebox's roles may do in Redis, as users of its
// access control lists (Redis 7 or later). The table is in table.go.
//
// It is checked by every test that starts a Redis: internal/gbtest gives each role its
// user, and fails a test in which Redis refused something.
package redisacl

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Role is what a process is to Redis.
type Role string

// The roles.
const (
	API     Role = "glovebox-api"     // with the deliverer and the sweeper
	Worker  Role = "glovebox-worker"  // one user for all workers, or one for each
	Metrics Role = "glovebox-metrics" // sees how much there is, and who lives
	Admin   Role = "default"          // the operator: everything
)

// User is a user of Redis.
type User struct {
	Role Role
	// Worker is the name of the only worker that the user is for, or "" for any. It can
	// write no other worker's beat.
	Worker string
}

// Name is the user's name in Redis.
func (u User) Name() string {
	if u.Worker != "" {
		return string(u.Role) + "-" + u.Worker
	}
	return string(u.Role)
}

// WorkerName is the name of the worker that the user of that name is for, or "".
func WorkerName(user string) string {
	name, ok := strings.CutPrefix(user, string(Worker)+"-")
	if !ok || !ValidWorker(name) {
		return ""
	}
	return name
}

// ValidWorker reports whether a worker can have that name: 1 to 63 of a-z, 0-9, - and ., as
// the names of hosts are.
func ValidWorker(name string) bool {
	return len(name) >= 1 && len(name) <= 63 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// IDRandom is how many characters the id of a worker has after its name and a dash.
const IDRandom = 10

// Rules are the user's rules, as ACL SETUSER and an ACL file take them. The password's
// SHA-256 is in them, not the password.
func (u User) Rules(password string) string {
	hash := sha256.Sum256([]byte(password))
	return "reset on #" + hex.EncodeToString(hash[:]) + " " + u.grants()
}

// AccessString are the user's rules as ElastiCache takes them: it sets passwords by itself,
// and knows no reset. What a user of ElastiCache may by default is taken away first.
func (u User) AccessString() string {
	return "on resetkeys resetchannels -@all " + u.grants()
}

// grants are what the user may.
func (u User) grants() string {
	var rules []string
	switch u.Role {
	case Admin:
		return "~* &* +@all"
	case Metrics:
		rules = append(rules, words("~", metricsKeys), words("+", metricsCommands), "("+words("%R~", metricsReadKeys), words("+", metricsReads)+")")
		return strings.Join(rules, " ")
	}
	for _, k := range keys {
		access := k.Worker
		if u.Role == API {
			access = k.API
		}
		if access != None {
			rules = append(rules, pattern(access, k.Pattern))
		}
	}
	rules = append(rules, words("+", commands))
	if u.Role == API {
		rules = append(rules, words("+", apiCommands))
	} else {
		rules = append(rules, pattern(Write, beats+u.beat()))
	}
	c := channels[u.Role]
	rules = append(rules, "("+words("&", c.publish)+" +publish)", "("+words("&", c.subscribe)+" +subscribe +unsubscribe)")
	return strings.Join(rules, " ")
}

// beat matches the ids of the worker.
func (u User) beat() string {
	if u.Worker == "" {
		return "*"
	}
	return u.Worker + "-" + strings.Repeat("?", IDRandom)
}

// AnyRole are the rules of a user for tests that play api and worker at once, and look at
// what is there with commands that neither has. It reaches no key that is not in the table.
func AnyRole(password string) string {
	hash := sha256.Sum256([]byte(password))
	rules := []string{"reset", "on", "#" + hex.EncodeToString(hash[:]), "&*", "+@all"}
	for _, k := range keys {
		rules = append(rules, "~"+k.Pattern)
	}
	return strings.Join(rules, " ")
}

func pattern(a Access, glob string) string {
	if a == ReadWrite {
		return "~" + glob
	}
	return fmt.Sprintf("%%%s~%s", a, glob)
}

// words puts prefix before each word.
func words(prefix, list string) string {
	all := strings.Fields(list)
	for i := range all {
		all[i] = prefix + all[i]
	}
	return strings.Join(all, " ")
}
