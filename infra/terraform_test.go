package infra

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/redisacl"
	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// The module has no compiler that knows Glovebox: these tests hold what it writes against what
// the programs, units and scripts read.

// source is the text of files of the tree.
func source(t *testing.T, patterns ...string) string {
	t.Helper()
	var text strings.Builder
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: found %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(b)
		}
	}
	return text.String()
}

// part is what lies in text between the first begin and the next end.
func part(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, begin)
	within, _, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("there is no %q … %q", begin, end)
	}
	return within
}

// found are the words that match, sorted, each once.
func found(expression, text string) []string {
	words := map[string]bool{}
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		words[m[len(m)-1]] = true
	}
	return slices.Sorted(maps.Keys(words))
}

func sorted(lists ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(lists...))) }

const setting = `\bGLOVEBOX_[A-Z0-9_]*[A-Z0-9]\b`

// notOfModule are settings that the module neither makes nor lets anybody make.
var notOfModule = map[string]string{
	"GLOVEBOX_S3_ENDPOINT":        "empty for AWS",
	"GLOVEBOX_S3_PUBLIC_ENDPOINT": "empty for AWS",
	"GLOVEBOX_S3_PATH_STYLE":      "false for AWS",
	"GLOVEBOX_S3_ACCESS_KEY":      "the host's role",
	"GLOVEBOX_S3_SECRET_KEY":      "the host's role",
	"GLOVEBOX_INSECURE":           "nothing is",
	"GLOVEBOX_LOG":                "the unit's",
	"GLOVEBOX_PODMAN_SOCKET":      "the unit's",
	"GLOVEBOX_AGENT":              "the unit's",
	"GLOVEBOX_INSTANCE":           "the unit's",
	"GLOVEBOX_REQUIRE_CGROUPS":    "the unit's: hosts of the module have them",
	"GLOVEBOX_ISOLATION":          "its workers have gVisor",
	"GLOVEBOX_ISOLATION_ALLOWED":  "its workers have gVisor",
	"GLOVEBOX_POLICY":             "a file, which the module brings to no host: a tenant's rules are in its terms",
}

// TestTerraformSettings: the module gives each program settings that it has, and all of them that
// have to be given on AWS. A setting that a program gets is added there, or above.
func TestTerraformSettings(t *testing.T) {
	t.Parallel()
	main, secrets := source(t, "terraform/main.tf"), source(t, "terraform/secrets.tf")
	shared := found(setting, part(t, main, "shared_settings = merge(", "\n  )"))
	for _, program := range []struct{ name, help, makes, secrets, allowed string }{
		{
			"glovebox api", source(t, "cmd/glovebox/api.go"),
			part(t, main, `role           = "api"`, "\n      }\n    },"), part(t, secrets, "      api = {", "\n      }"), part(t, main, "  api_settings = [", "]"),
		},
		{
			"glovebox-worker", source(t, "cmd/glovebox-worker/run.go"),
			part(t, main, `role           = "worker"`, "\n      }\n    },"), part(t, secrets, "for pool in keys(var.workers)", "\n      }"), part(t, main, "  worker_settings = [", "]"),
		},
	} {
		has := found(setting, program.help)
		gives := slices.Concat(shared, found(setting, program.makes), found(setting, program.secrets), found(setting, program.allowed))
		if len(has) < 15 || len(gives) < 10 {
			t.Fatalf("%s: found %d settings and %d that are given", program.name, len(has), len(gives))
		}
		for _, name := range gives {
			if !slices.Contains(has, name) {
				t.Errorf("%s has no setting %s", program.name, name)
			}
		}
		for _, name := range has {
			if _, ok := notOfModule[name]; !ok && !slices.Contains(gives, name) && !strings.Contains(name, "_URL_FILE") {
				t.Errorf("%s has the setting %s, which nobody can give by the module", program.name, name)
			}
		}
	}
}

// TestTerraformSettingsAreTaken: the programs take what a host of the module gives them: settings as
// cloud-init writes them, secrets of the form that the module asks for, and the unit's own.
func TestTerraformSettingsAreTaken(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("A", 43) + "="
	environment := func(role string, given config.File) config.Getenv {
		for _, line := range found(`(?m)^Environment=(GLOVEBOX_.*)$`, source(t, "infra/systemd/glovebox-"+role+".service")) {
			name, value, _ := strings.Cut(line, "=")
			given[name] = value
		}
		given["GLOVEBOX_S3_REGION"], given["GLOVEBOX_S3_BUCKET"] = "eu-central-1", "glovebox-123456789012-eu-central-1"
		given["GLOVEBOX_RETENTION_SECONDS"], given["GLOVEBOX_METRICS_ADDR"] = "604800", "0.0.0.0:8438"
		return given.Get
	}
	const redis = "master.glovebox.abcdef.euc1.cache.amazonaws.com:6379/0"
	worker, err := config.ReadWorker(environment("worker", config.File{
		"GLOVEBOX_REDIS_URL":   "rediss://glovebox-worker-default:password-of_a-pool-00001@" + redis,
		"GLOVEBOX_SIGNING_KEY": key, "GLOVEBOX_SECRETS_KEY": key + " " + key, "GLOVEBOX_GRACE_SECONDS": "60",
	}))
	if err != nil || len(worker.Warnings) > 0 {
		t.Errorf("the worker: %v, warnings %q", err, worker.Warnings)
	}
	if address, err := redisconn.Parse(worker.Redis.URL); err != nil || redisacl.WorkerName(address.Options.Username) != "default" {
		t.Errorf("%v; want that the worker's name begins with its pool's", err)
	}
	api, err := config.ReadAPI(environment("api", config.File{
		"GLOVEBOX_REDIS_URL":   "rediss://glovebox-api:password-of-the_api-0001@" + redis,
		"GLOVEBOX_ADMIN_TOKEN": strings.Repeat("0", 64), "GLOVEBOX_WEBHOOK_KEY": key, "GLOVEBOX_CAPABILITY_KEY": key + " " + key,
		"GLOVEBOX_API_ADDR": "0.0.0.0:8437", "GLOVEBOX_PUBLIC_URL": "https://glovebox.example.com",
		"GLOVEBOX_TRUSTED_PROXIES": "10.80.0.0/20,10.80.16.0/20,10.80.32.0/20", "GLOVEBOX_GRACE_SECONDS": "20",
	}))
	if err != nil || len(api.Warnings) > 0 {
		t.Errorf("the api: %v, warnings %q", err, api.Warnings)
	}
}

// TestTerraformSecrets: what is secret is not in user data.
func TestTerraformSecrets(t *testing.T) {
	t.Parallel()
	secret := found(setting, source(t, "terraform/secrets.tf"))
	for _, name := range found(setting, source(t, "terraform/main.tf", "terraform/hosts.tf")) {
		if slices.Contains(secret, name) {
			t.Errorf("%s is among the settings that are no secret", name)
		}
	}
}

// TestTerraformHostEnv: cloud-init writes what the scripts of an EC2 instance read, and no more.
func TestTerraformHostEnv(t *testing.T) {
	t.Parallel()
	written := found(`(?m)^ +([A-Z_0-9]+) +=`, part(t, source(t, "terraform/hosts.tf"), "host_env = {", "\n    }"))
	scripts := source(t, "infra/aws/*.sh", "terraform/templates/boot.sh")
	var read []string
	for _, name := range found(`\$(?:\(\()?\{?([A-Z][A-Z_0-9]+)\b`, scripts) {
		if name != "IMDS" { // a test's
			read = append(read, name)
		}
	}
	read = append(read, "GRACE_SECONDS") // in an arithmetic expression
	slices.Sort(read)
	if diff := cmp.Diff(written, slices.Compact(read)); diff != "" {
		t.Errorf("aws.env and what is read of it differ (-written +read)\n%s", diff)
	}
}

// TestTerraformPaths: files that the module's hosts write are where units and scripts look for them.
func TestTerraformPaths(t *testing.T) {
	t.Parallel()
	hosts := source(t, "terraform/hosts.tf")
	for _, role := range []string{"api", "worker"} {
		path := "/etc/glovebox/" + role + ".env"
		if unit := source(t, "infra/systemd/glovebox-"+role+".service"); !strings.Contains(hosts, `"/etc/glovebox/${group.role}.env"`) || !strings.Contains(unit, "\nEnvironmentFile="+path+"\n") {
			t.Errorf("%s is not what cloud-init writes and the unit reads", path)
		}
	}
	for _, script := range []string{"infra/aws/host.sh", "infra/aws/settings.sh", "infra/aws/drain.sh", "infra/aws/autoscale.sh", "terraform/templates/boot.sh"} {
		if !strings.Contains(hosts, `"/etc/glovebox/aws.env"`) || !strings.Contains(source(t, script), "\n. /etc/glovebox/aws.env\n") {
			t.Errorf("%s doesn't read what cloud-init writes", script)
		}
	}
	for _, path := range found(`/usr/local/[a-z/.-]+`, source(t, "infra/aws/glovebox-drain.service", "infra/aws/glovebox-autoscale.service")) {
		name, ok := strings.CutPrefix(path, "/usr/local/lib/glovebox/aws/")
		if _, err := os.Stat(filepath.Join("aws", name)); !ok || err != nil || !strings.Contains(source(t, "infra/aws/host.sh"), "infra/aws/"+name) {
			t.Errorf("a unit runs %s, which host.sh doesn't install: %v", path, err)
		}
	}
	if unit := source(t, "infra/aws/glovebox-autoscale.service"); !strings.Contains(unit, "EnvironmentFile=-/run/glovebox-settings/api.env\n") {
		t.Error("glovebox-autoscale.service doesn't read what settings.sh writes")
	}
	command := source(t, "cmd/glovebox/autoscale.go")
	for _, flag := range found(`--([a-z]+) (?:"\$|1m)`, source(t, "infra/aws/autoscale.sh")) {
		if !strings.Contains(command, `"`+flag+`"`) && !slices.Contains([]string{"region", "namespace", "dimensions", "value"}, flag) {
			t.Errorf("glovebox autoscale has no --%s", flag)
		}
	}
	if port := found(`(?m)^ +api_port += (\d+)$`, source(t, "terraform/main.tf")); !strings.Contains(source(t, "infra/aws/host.sh"), "http://127.0.0.1:"+strings.Join(port, "")+"/healthz") {
		t.Errorf("host.sh doesn't ask the api at its port %s", port)
	}
	keep := []string{"GLOVEBOX_REDIS_URL"}
	unset := found(setting, part(t, source(t, "infra/aws/glovebox-autoscale.service"), "UnsetEnvironment=", "\n"))
	if diff := cmp.Diff(found(setting, part(t, source(t, "terraform/secrets.tf"), "      api = {", "\n      }")), sorted(unset, keep)); diff != "" {
		t.Errorf("of the API's secrets the counter of workers has to be given the way to Redis alone (-secrets +kept or unset)\n%s", diff)
	}
	api := source(t, "producer/api/openapi.go")
	for _, path := range found(`(?m)^ +path += "([^"]+)"`, source(t, "terraform/api.tf")) {
		if !strings.Contains(api, `"`+path+`"`) {
			t.Errorf("the API has no %s, at which the load balancer looks", path)
		}
	}
}

// TestTerraformAlarms: an alarm's description names alerts that exist, and the README says of each
// alert which alarm it has.
func TestTerraformAlarms(t *testing.T) {
	t.Parallel()
	rules := found(`(?m)- alert: (\w+)$`, source(t, "infra/prometheus/rules.yml"))
	if len(rules) < 10 {
		t.Fatalf("found %d alerts", len(rules))
	}
	alarms := found(`\bGlovebox[A-Z]\w+`, source(t, "terraform/alarms.tf"))
	for _, name := range alarms {
		if !slices.Contains(rules, name) {
			t.Errorf("there is no alert %s, which an alarm names", name)
		}
	}
	for line := range strings.Lines(source(t, "terraform/README.md")) {
		if m := regexp.MustCompile("^\\| `(Glovebox[A-Z]\\w+)` \\| (.*) \\|").FindStringSubmatch(line); m != nil {
			if slices.Contains(alarms, m[1]) == strings.HasPrefix(m[2], "–") {
				t.Errorf("README.md says of %s: %s; alarms.tf has another opinion", m[1], m[2])
			}
			rules = slices.DeleteFunc(rules, func(name string) bool { return name == m[1] })
		}
	}
	if len(rules) > 0 {
		t.Errorf("terraform/README.md doesn't say what becomes of %s", rules)
	}
}

// TestTerraformTests: what the module's tests assert of all rules, policies and variables, they
// assert of each that exists.
func TestTerraformTests(t *testing.T) {
	t.Parallel()
	module, tests := source(t, "terraform/*.tf"), source(t, "terraform/tests/*.tftest.hcl")
	network, policies := source(t, "terraform/tests/network.tftest.hcl"), source(t, "terraform/tests/policies.tftest.hcl")
	resource := func(kind string) string { return `(?m)^resource "(?:` + kind + `)" "(\w+)"` }
	for _, c := range []struct{ what, kind, in string }{
		{"ingress rule", "aws_vpc_security_group_ingress_rule", network},
		{"egress rule", "aws_vpc_security_group_egress_rule", network},
	} {
		names := found(resource(c.kind), module)
		if len(names) == 0 {
			t.Fatalf("found no %s", c.kind)
		}
		for _, name := range names {
			if !strings.Contains(c.in, c.kind+"."+name) {
				t.Errorf("no test looks at the %s %s", c.what, name)
			}
		}
	}
	for _, old := range []string{`"aws_security_group_rule"`, `"aws_instance"`, `"aws_iam_policy"`, `"aws_iam_policy_document"`, "aws_iam_role_policy_attachment", "managed_policy_arns", "\n  ingress {", "\n  egress {"} {
		if strings.Contains(module, old) {
			t.Errorf("the module has %s, at which no test looks", strings.TrimSpace(old))
		}
	}
	for _, block := range strings.Split(module, "\nresource ")[1:] {
		if name := found(`^"\w+" "\w+"`, block)[0]; strings.Contains(block, "jsonencode(") {
			name = strings.ReplaceAll(strings.ReplaceAll(name, `" "`, "."), `"`, "")
			if !strings.Contains(policies, name) {
				t.Errorf("no test looks at the policy of %s", name)
			}
		}
	}
	for _, block := range strings.Split("\n"+source(t, "terraform/variables.tf"), "\nvariable ")[1:] {
		name := strings.Trim(strings.Fields(block)[0], `"`)
		want := strings.Count(block, "\n  validation {")
		if got := strings.Count(tests, "expect_failures = [var."+name+"]"); got < want {
			t.Errorf("%s has %d validations, but %d tests of what it refuses", name, want, got)
		}
	}
}

// TestIdleConnections: the api keeps a connection for longer than the load balancer, which answers 502 where a request comes as its target closes one.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	number := func(expression, file string) int {
		t.Helper()
		all := found(expression, source(t, file))
		if len(all) != 1 {
			t.Fatalf("%s in %s: got %q", expression, file, all)
		}
		n, err := strconv.Atoi(all[0])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	api, balancer := 60*number(`const idleTime = (\d+) \* time\.Minute`, "producer/api/api.go"), number(`idle_timeout = (\d+)`, "terraform/api.tf")
	if api <= balancer {
		t.Errorf("the api keeps a connection for %d s, and the load balancer for %d s", api, balancer)
	}
}
