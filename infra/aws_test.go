package infra

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	workersSecrets = "GLOVEBOX_REDIS_URL=rediss://glovebox-worker-cpu:p@redis:6379/0\n"

	// awsStub answers for AWS's command; what is copied from S3 is the release.
	awsStub = `case $* in
*get-secret-value*) printf '` + workersSecrets + `' ;;
*"s3 cp"*) cp release "${!#}" ;;
esac`

	// running answers for systemctl where every unit runs.
	running = `case $1 in is-active) echo active ;; esac`

	lifecycle = "aws --region eu-central-1 autoscaling complete-lifecycle-action --lifecycle-action-result "
	launched  = " --auto-scaling-group-name glovebox-cpu --lifecycle-hook-name launching --instance-id i-0123456789abcdef0"
)

// awsEnv is what cloud-init writes on a worker's host.
func awsEnv(release string) string {
	sum := sha256.Sum256([]byte(release))
	return `REGION='eu-central-1'
ROLE='worker'
GROUP='glovebox-cpu'
LAUNCHING_HOOK='launching'
TERMINATING_HOOK='terminating'
GRACE_SECONDS='75'
SECRET_ARN='arn:aws:secretsmanager:eu-central-1:123456789012:secret:glovebox'
RELEASE_URL='s3://releases/glovebox.tar.gz'
RELEASE_SHA256='` + hex.EncodeToString(sum[:]) + "'\n"
}

// autoscaleEnv is what an api's host has besides, where pools follow what there is to do.
const autoscaleEnv = `AUTOSCALE_NAMESPACE='Glovebox/glovebox'
AUTOSCALE_POOLS='cpu common 4 1 8 180 600;exams pool=exams,zone=a 2 1 3 60 300 40'
`

// newInstance is a machine on EC2, on which cloud-init has begun.
func newInstance(t *testing.T, env string) *machine {
	t.Helper()
	m := newMachine(t)
	m.stub("aws", awsStub)
	m.stub("cloud-init", "echo i-0123456789abcdef0")
	m.stub("systemctl", running)
	m.stub("sleep", "")
	m.write("etc/glovebox/aws.env", env)
	return m
}

// packed is what infra/worker-host.sh --pack makes, as an archive.
func packed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "pack/infra"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lib/runsc", "lib/glovebox-runtime", "lib/glovebox-agent", "bin/glovebox", "bin/glovebox-worker", "images/bash-1234.tar"} {
		path := filepath.Join(dir, "pack", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("packed"), 0o755); err != nil { //nolint:gosec // stands for a program
			t.Fatal(err)
		}
	}
	archive, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-cz", "pack").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(archive)
}

// boot is boot.sh with directories that a machine of these tests can change.
func boot(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("../terraform/templates/boot.sh")
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("/var/tmp/", "/run/home/", "/opt/glovebox", "/run/home/glovebox").Replace(string(script))
}

// TestBoot: an instance installs its release and is counted only after that.
func TestBoot(t *testing.T) {
	t.Parallel()
	release := packed(t)
	m := newInstance(t, awsEnv(release))
	m.write("tree/release", release)
	m.write("tree/boot.sh", boot(t))
	m.run("./boot.sh")
	if got := m.read("usr/local/bin/glovebox-worker"); got != "packed" {
		t.Errorf("the worker is %q", got)
	}
	dropIn := m.read("etc/systemd/system/glovebox-worker.service.d/aws.conf")
	for _, want := range []string{"ExecStartPre=+/usr/local/lib/glovebox/aws/settings.sh worker\n", "EnvironmentFile=-/run/glovebox-settings/worker.env\n", "TimeoutStopSec=105\n"} {
		if !strings.Contains(dropIn, want) {
			t.Errorf("the drop-in lacks %q:\n%s", want, dropIn)
		}
	}
	unit, err := os.ReadFile("aws/glovebox-drain.service")
	if err != nil {
		t.Fatal(err)
	}
	if m.read("etc/systemd/system/glovebox-drain.service") != string(unit) {
		t.Error("glovebox-drain.service is not installed")
	}
	asked := m.asked()
	start := strings.Index(asked, "systemctl start --no-block glovebox-worker.service glovebox-drain.service\n")
	if done := strings.Index(asked, lifecycle+"CONTINUE"+launched); start < 0 || done < start {
		t.Errorf("want the units started, then the group told, got\n%s", asked)
	}
}

// TestBootWaits: an instance is counted once what it is for has run for a while, whatever it waits for, and given up where
// that ends, or is started again and again.
func TestBootWaits(t *testing.T) {
	t.Parallel()
	release := packed(t)
	for name, c := range map[string]struct {
		role, systemctl, curl string
		counts                bool
	}{
		"ended for good":         {"worker", `case $1 in is-active) echo failed; exit 3 ;; esac`, "", false},
		"started over and over":  {"worker", `case "$*" in is-active*) echo active ;; *NRestarts*) echo $((looks / 10)) ;; esac`, "", false},
		"between two starts":     {"worker", `case $1 in is-active) echo activating; exit 3 ;; esac`, "", false},
		"Podman over and over":   {"worker", `case "$*" in is-active*) echo active ;; *NRestarts*podman*) echo $((looks / 10)) ;; esac`, "", false},
		"a socket is missing":    {"worker", `case $1 in is-active) echo inactive; exit 3 ;; esac`, "", false},
		"waits for cloud-init":   {"worker", `case "$*" in is-active*) echo inactive; exit 3 ;; *"Job "*) echo 42 ;; esac`, "", true},
		"runs at the second try": {"worker", `case "$*" in is-active*) [ $looks -gt 10 ] && echo active || echo activating ;; *NRestarts*) echo $((looks > 10)) ;; esac`, "", true},
		"an api that answers":    {"api", running, "", true},
		"an api that does not":   {"api", running, "exit 7", false},
	} {
		if testing.Short() && (name == "between two starts" || name == "a socket is missing") {
			continue // they take as long as "started over and over"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newInstance(t, strings.Replace(awsEnv(release), "'worker'", "'"+c.role+"'", 1))
			m.write("tree/release", release)
			m.write("tree/boot.sh", boot(t))
			m.stub("systemctl", "looks=$(grep -c '^systemctl is-active' "+m.dir+"/log)\n"+c.systemctl)
			m.stub("curl", c.curl)
			m.stub("journalctl", "echo the reason")
			out, err := m.try("./boot.sh")
			want, other := "CONTINUE", "ABANDON"
			if !c.counts {
				want, other = other, want
			}
			if (err == nil) != c.counts || strings.Contains(out, "the reason") == c.counts {
				t.Errorf("got %v, want it counted: %v\n%s", err, c.counts, out)
			}
			if asked := m.asked(); !strings.Contains(asked, lifecycle+want+launched) || strings.Contains(asked, lifecycle+other) {
				t.Errorf("want %s, asked was\n%s", want, asked)
			}
		})
	}
}

// TestBootOfAPI: an api's host gets nothing that runs code.
func TestBootOfAPI(t *testing.T) {
	t.Parallel()
	release := packed(t)
	m := newInstance(t, strings.Replace(awsEnv(release), "'worker'", "'api'", 1))
	m.stub("curl", "")
	m.write("tree/release", release)
	m.write("tree/boot.sh", boot(t))
	m.run("./boot.sh")
	if m.read("usr/local/bin/glovebox") == "" || m.read("etc/systemd/system/glovebox-api.service") == "" {
		t.Error("the api is not installed")
	}
	if m.read("usr/local/bin/glovebox-worker") != "" || m.read(lib+"runsc") != "" || strings.Contains(m.asked(), "podman") {
		t.Errorf("want nothing of a worker's, asked was\n%s", m.asked())
	}
}

// TestBootOfCounter: an api's host that is told how to count workers does.
func TestBootOfCounter(t *testing.T) {
	t.Parallel()
	release := packed(t)
	m := newInstance(t, strings.Replace(awsEnv(release), "'worker'", "'api'", 1)+autoscaleEnv)
	m.stub("curl", "")
	m.write("tree/release", release)
	m.write("tree/boot.sh", boot(t))
	m.run("./boot.sh")
	if m.read("etc/systemd/system/glovebox-autoscale.service") == "" || m.read(lib+"aws/autoscale.sh") == "" {
		t.Error("glovebox-autoscale.service is not installed")
	}
	if want := "systemctl start --no-block glovebox-api.service glovebox-drain.service glovebox-autoscale.service\n"; !strings.Contains(m.asked(), want) {
		t.Errorf("want %q, asked was\n%s", want, m.asked())
	}
}

// TestAutoscale: what glovebox says of each pool comes to CloudWatch, also after CloudWatch refused something, and each within the minute that it is of. The script ends as glovebox does.
func TestAutoscale(t *testing.T) {
	t.Parallel()
	m := newInstance(t, awsEnv("")+autoscaleEnv)
	m.stub("glovebox", `case $* in
"autoscale --watch --interval 1m --pool common --slots 4 --min 1 --max 8 --boot 180s --clear 600s --sessions 0")
  echo "3 workers wanted, 1 there: jobs wait (7 jobs wait, 2 run, 1.5 a second come, each runs for 2s)"
  echo "2 workers wanted, 3 there: fewer are enough" ;;
"autoscale --watch --interval 1m --pool pool=exams,zone=a --slots 2 --min 1 --max 3 --boot 60s --clear 300s --sessions 40")
  echo "5 workers wanted of pool=exams,zone=a, 1 there: jobs wait (7 jobs wait, 2 run, 1.5 a second come, each runs for 2s)" ;;
*) exit 2 ;;
esac
exit 4`)
	m.stub("aws", `case $* in *"--value 3") exit 254 ;; esac`)
	m.stub("timeout", `shift; exec "$@"`)
	out, err := m.try("infra/aws/autoscale.sh")
	if err == nil || !strings.Contains(out, "cpu: 3 workers wanted, 1 there: jobs wait") || !strings.Contains(out, "exams: 5 workers wanted of pool=exams,zone=a") || !strings.Contains(out, "CloudWatch didn't take it") {
		t.Errorf("got %v, %s", err, out)
	}
	const put = "aws --region eu-central-1 cloudwatch put-metric-data --namespace Glovebox/glovebox --metric-name WantedWorkers --dimensions Pool="
	for _, of := range []string{"cpu --value 3\n", "cpu --value 2\n", "exams --value 5\n"} {
		if want := put + of; !strings.Contains(m.asked(), "timeout 50 "+want) || !strings.Contains(m.asked(), "\n"+want) {
			t.Errorf("want %q, asked was\n%s", want, m.asked())
		}
	}
}

// TestBootRefuses: an instance whose release is not the one that was asked for, or no pack, is given up.
func TestBootRefuses(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	other, err := exec.CommandContext(t.Context(), "tar", "-C", empty, "-cz", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct{ named, fetched string }{
		"has another SHA-256": {"the release", "another"},
		"is no pack":          {string(other), string(other)},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			m := newInstance(t, awsEnv(c.named))
			m.write("tree/release", c.fetched)
			m.write("tree/boot.sh", boot(t))
			out, err := m.try("./boot.sh")
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("got %v, want it refused with %q:\n%s", err, want, out)
			}
			if asked := m.asked(); !strings.Contains(asked, lifecycle+"ABANDON"+launched) || strings.Contains(asked, "CONTINUE") {
				t.Errorf("want the launch abandoned, asked was\n%s", asked)
			}
		})
	}
}

// TestBootWithoutPackages: an instance is given up at once if apt-get fails.
func TestBootWithoutPackages(t *testing.T) {
	t.Parallel()
	m := newInstance(t, awsEnv("release"))
	m.write("tree/boot.sh", boot(t))
	m.stub("dpkg-query", "")
	m.stub("apt-get", "exit 100")
	if out, err := m.try("./boot.sh"); err == nil {
		t.Errorf("it went on:\n%s", out)
	}
	if asked := m.asked(); !strings.Contains(asked, lifecycle+"ABANDON"+launched) || strings.Contains(asked, "CONTINUE") {
		t.Errorf("want the launch abandoned, asked was\n%s", asked)
	}
}

// TestSettings: the secrets are fetched into memory, for root alone; none that lacks a Redis with TLS.
func TestSettings(t *testing.T) {
	t.Parallel()
	m := newInstance(t, awsEnv(""))
	m.run("infra/aws/settings.sh", "worker")
	file := filepath.Join(m.dir, "run/glovebox-settings/worker.env")
	if got, err := os.ReadFile(file); err != nil || string(got) != workersSecrets {
		t.Errorf("got %q, %v, want %q", got, err, workersSecrets)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	for name, answer := range map[string]string{"refused": "exit 254", "no Redis": "echo NAME=value", "no TLS": "echo GLOVEBOX_REDIS_URL=redis://redis"} {
		m.stub("aws", answer)
		_, err := m.try("infra/aws/settings.sh", "worker")
		exit, ok := err.(*exec.ExitError) //nolint:errorlint // as cmd.Run returns it
		if !ok || exit.ExitCode() != 1 {
			t.Errorf("%s: got %v, want status 1, which systemd tries again", name, err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != workersSecrets {
		t.Errorf("after a failure got %q, %v, want what was there", got, err)
	}
}

// metadata is EC2's metadata service, IMDSv2: what it answers below /latest/meta-data/, once
// it was asked for it as often as after says.
type metadata struct {
	mu      sync.Mutex
	path    string
	content string
	after   int
}

func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
		_, _ = w.Write([]byte("token"))
	case r.Header.Get("X-aws-ec2-metadata-token") != "token":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/latest/meta-data/"+m.path && m.after == 0:
		_, _ = w.Write([]byte(m.content))
	case r.URL.Path == "/latest/meta-data/"+m.path:
		m.after--
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Path == "/latest/meta-data/autoscaling/target-lifecycle-state":
		_, _ = w.Write([]byte("InService"))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// TestDrain: the worker is stopped when the instance is about to end, and the group is told
// after it has drained.
func TestDrain(t *testing.T) {
	t.Parallel()
	for why, says := range map[string]*metadata{
		"its Spot capacity is taken back":        {path: "spot/instance-action", content: `{"action": "terminate", "time": "2026-11-22T20:00:00Z"}`, after: 2},
		"its Auto Scaling group takes it out":    {path: "autoscaling/target-lifecycle-state", content: "Terminated", after: 2},
		"its Auto Scaling group takes it out at": {path: "autoscaling/target-lifecycle-state", content: "Terminated"},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			imds := httptest.NewServer(says)
			defer imds.Close()
			m := newInstance(t, awsEnv(""))
			m.stub("sleep", "exec /bin/sleep 0.01")
			out := m.run("env", "IMDS="+imds.URL, "infra/aws/drain.sh")
			if !strings.Contains(out, strings.TrimSuffix(why, " at")) {
				t.Errorf("want the reason, got %s", out)
			}
			want := []string{"systemctl stop glovebox-worker.service", lifecycle + "CONTINUE --auto-scaling-group-name glovebox-cpu --lifecycle-hook-name terminating --instance-id i-0123456789abcdef0"}
			at := 0
			for _, call := range want {
				i := strings.Index(m.asked()[at:], call+"\n")
				if i < 0 {
					t.Fatalf("want %q in this order, asked was\n%s", want, m.asked())
				}
				at += i
			}
		})
	}
}

// TestNoDrain: an instance that stays, or whose metadata service is away, drains nothing.
func TestNoDrain(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.Handler{
		"in service": &metadata{},
		"away":       http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			imds := httptest.NewServer(handler)
			defer imds.Close()
			m := newInstance(t, awsEnv(""))
			// The third look would come after the second sleep, with which the script ends.
			m.stub("sleep", "[ \"$(grep -c ^sleep "+m.dir+"/log)\" -lt 3 ] || kill $PPID")
			if out, err := m.try("env", "IMDS="+imds.URL, "infra/aws/drain.sh"); err == nil {
				t.Errorf("it came to its end: %s", out)
			}
			if asked := m.asked(); strings.Contains(asked, "systemctl") || strings.Count(asked, "sleep 5\n") != 3 {
				t.Errorf("want three looks, asked was\n%s", asked)
			}
		})
	}
}
