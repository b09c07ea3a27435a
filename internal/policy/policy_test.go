package policy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

func rules(list ...job.Rule) []job.Rule { return list }

func deny(name, when string) job.Rule { return job.Rule{Name: name, When: when, Then: job.RuleDeny} }

func hold(name, when string) job.Rule { return job.Rule{Name: name, When: when, Then: job.RuleHold} }

func mustParse(tb testing.TB, list ...job.Rule) Policy {
	tb.Helper()
	p, err := Parse("policy", list)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestDecide: each variable, in an expression that is true of one job and not of another.
func TestDecide(t *testing.T) {
	t.Parallel()
	with := func(change func(*Subject)) Subject {
		s := Subject{Kind: KindJob, Tenant: "acme", Token: "ci", Spec: job.Spec{Runtime: "python", Source: "print(1)"}, Limits: job.Limits{MemoryMB: 256, CPUs: 1, WallMS: 10_000}}
		change(&s)
		return s
	}
	cases := []struct {
		when   string
		change func(*Subject)
	}{
		{`kind == 'execution' && session != ''`, func(s *Subject) { s.Kind, s.Session = KindExecution, "acme-s-x" }},
		{`kind in ['batch', 'pipeline']`, func(s *Subject) { s.Kind = KindBatch }},
		{`tenant == 'other'`, func(s *Subject) { s.Tenant = "other" }},
		{`token == 'agent'`, func(s *Subject) { s.Token = "agent" }},
		{`runtime != 'python'`, func(s *Subject) { s.Spec.Runtime = "node" }},
		{`image != '' && !image.startsWith('registry.example.com/')`, func(s *Subject) { s.Spec.Image = "docker.io/library/alpine@sha256:0" }},
		{`command.exists(c, c == '-c')`, func(s *Subject) { s.Spec.Command = []string{"sh", "-c"} }},
		{`args.size() > 2`, func(s *Subject) { s.Spec.Args = []string{"a", "b", "c"} }},
		{`source.contains('subprocess')`, func(s *Subject) { s.Spec.Source = "import subprocess" }},
		{`source.matches('\\beval\\s*\\(')`, func(s *Subject) { s.Spec.Source = "x = eval (y)" }},
		{`code.contains('subprocess')`, func(s *Subject) {
			s.Spec.Source, s.Spec.Entrypoint = "", "main.py"
			s.Spec.Files = []job.File{{Name: "main.py", ContentBase64: base64.StdEncoding.EncodeToString([]byte("import subprocess"))}}
		}},
		{`entrypoint == 'main.py'`, func(s *Subject) { s.Spec.Entrypoint = "main.py" }},
		{`files.exists(f, f.name.endsWith('.so'))`, func(s *Subject) { s.Spec.Files = []job.File{{Name: "a.so"}} }},
		{`files.exists(f, f.content.contains('x'))`, func(s *Subject) { s.Spec.Files = []job.File{{Name: "a", Content: "x"}} }},
		{`files.map(f, f.size).exists(n, n > 3)`, func(s *Subject) { s.Spec.Files = []job.File{{Name: "a", Content: "four"}} }},
		{`files.exists(f, f.from != 'inline')`, func(s *Subject) { s.Spec.Files = []job.File{{Name: "a", Artifact: "acme-x/b"}} }},
		{`stdin.contains('\n')`, func(s *Subject) { s.Spec.StdinBase64 = base64.StdEncoding.EncodeToString([]byte("a\nb")) }},
		{`compile != '' || run.contains('curl')`, func(s *Subject) { s.Spec.Commands = &job.Commands{Run: "curl x"} }},
		{`context != '' && language == 'javascript'`, func(s *Subject) { s.Context, s.Language = "js", "javascript" }},
		{`checker.contains('exit')`, func(s *Subject) {
			s.Spec.Checker = &job.Checker{Program: &job.CheckerProgram{Runtime: "python", Source: "exit(42)"}}
		}},
		{`checker_runtime == 'bash' && checker_limits.memory_mb > 512`, func(s *Subject) {
			s.Spec.Checker = &job.Checker{Program: &job.CheckerProgram{Runtime: "bash", Limits: job.Limits{MemoryMB: 2048}}}
		}},
		{`isolation != 'gvisor'`, func(s *Subject) { s.Spec.Isolation = job.Process }},
		{`'zone' in placement && placement.zone == 'a'`, func(s *Subject) { s.Spec.Placement = job.Labels{"zone": "a"} }},
		{`tests > 0`, func(s *Subject) { s.Spec.Tests = make([]job.Test, 1) }},
		{`'LD_PRELOAD' in env`, func(s *Subject) { s.Spec.Env = map[string]string{"LD_PRELOAD": "x"} }},
		{`env.exists(k, env[k].contains('secret'))`, func(s *Subject) { s.Spec.Env = map[string]string{"K": "a secret"} }},
		{`secrets.exists(s, s.startsWith('PROD_'))`, func(s *Subject) { s.Spec.Secrets = []string{"PROD_KEY"} }},
		{`'reviewed' in metadata && metadata.reviewed != 'yes'`, func(s *Subject) { s.Spec.Metadata = map[string]string{"reviewed": "no"} }},
		{`limits.memory_mb > 1024 && limits.cpus > 1`, func(s *Subject) { s.Limits.MemoryMB, s.Limits.CPUs = 2048, 1.5 }},
		{`limits.wall_ms >= 60000`, func(s *Subject) { s.Limits.WallMS = 60_000 }},
		{`priority == 'high'`, func(s *Subject) { s.Spec.Priority = job.High }},
		{`callback_host.endsWith('.example.org')`, func(s *Subject) { s.Spec.Callback = &job.Callback{URL: "https://Hooks.Example.org:8443/x"} }},
		{`callback_host == 'hooks.example.org'`, func(s *Subject) { s.Spec.Callback = &job.Callback{URL: "https://hooks.example.org.:8443/x"} }},
		{`callback_host == 'around.example.org'`, func(s *Subject) { s.Around = &job.Callback{URL: "https://around.example.org/"} }},
		{`interactive == true`, func(s *Subject) { s.Spec.Interactive = true }},
		{`!fresh`, func(s *Subject) { s.Spec.Fresh = false }},
	}
	named := map[string]bool{}
	for _, c := range cases {
		p := mustParse(t, deny("rule", c.when))
		for _, name := range p.rules[0].condition.Names {
			named[name] = true
		}
		if v := Decide(with(c.change), p); v.Fault != nil || v.Rule.Name != "rule" {
			t.Errorf("%s: got %+v, want a match", c.when, v)
		}
		other := with(func(s *Subject) { s.Spec.Fresh = true })
		if v := Decide(other, p); v.Fault != nil || v.Rule.Name != "" {
			t.Errorf("%s: got %+v of another job, want no match", c.when, v)
		}
	}
	for _, name := range Variables() {
		if !named[name] {
			t.Errorf("no case has the variable %s", name)
		}
	}
}

// TestOrder: the first rule that matches decides, the operator's before the tenant's.
func TestOrder(t *testing.T) {
	t.Parallel()
	operator := mustParse(t, hold("images", "image != ''"), deny("rust", "runtime == 'rust'"))
	tenant := mustParse(t, deny("no-images", "image != ''"), hold("all", "true"))
	cases := []struct {
		name     string
		spec     job.Spec
		policies []Policy
		rule     string
		held     bool
		denied   string
	}{
		{"none", job.Spec{Runtime: "python"}, nil, "", false, ""},
		{"no rule matches", job.Spec{Runtime: "python"}, []Policy{operator}, "", false, ""},
		{"the operator's first", job.Spec{Image: "a"}, []Policy{operator, tenant}, "images", true, ""},
		{"then the tenant's", job.Spec{Runtime: "python"}, []Policy{operator, tenant}, "all", true, ""},
		{"denied", job.Spec{Runtime: "rust"}, []Policy{operator, tenant}, "rust", false, "the rule rust denies it"},
	}
	for _, c := range cases {
		v := Decide(Subject{Kind: KindJob, Spec: c.spec}, c.policies...)
		if v.Rule.Name != c.rule || v.Held() != c.held {
			t.Errorf("%s: got %+v, want rule %q, held %t", c.name, v, c.rule, c.held)
		}
		if err := v.Denied(); (err != nil) != (c.denied != "") || err != nil && err.Error() != c.denied {
			t.Errorf("%s: got %v, want %q", c.name, err, c.denied)
		}
	}
}

// TestRuleThatCannotJudge: what can't be evaluated refuses, and never lets pass.
func TestRuleThatCannotJudge(t *testing.T) {
	t.Parallel()
	for _, when := range []string{`metadata['team'] == 'x'`, `limits.nothing > 1`, `int(source) > 1`, `files[3].name == ''`, `args[0] == 'x'`} {
		v := Decide(Subject{Kind: KindJob, Spec: job.Spec{Source: "text"}}, mustParse(t, hold("rule", when), deny("next", "false")))
		if v.Fault == nil || v.Held() || job.CodeOf(v.Denied()) != job.CodeDenied || !strings.Contains(v.Denied().Error(), "the rule rule could not judge it") {
			t.Errorf("%s: got %+v, %v, want it refused", when, v, v.Denied())
		}
	}
}

// TestRuleThatNeverEnds: what a rule calculates is bounded, whatever the job has.
func TestRuleThatNeverEnds(t *testing.T) {
	t.Parallel()
	files := make([]job.File, 200)
	for i := range files {
		files[i] = job.File{Name: strings.Repeat("n", i+1), Content: strings.Repeat("a", 1000)}
	}
	large := Subject{Kind: KindJob, Spec: job.Spec{
		Source: strings.Repeat("a", 1<<20), Files: files,
		Args: slices.Repeat([]string{"argument"}, 10_000), Env: map[string]string{"A": strings.Repeat("a", 100_000)},
	}, Limits: job.Limits{MemoryMB: 1}}
	for _, when := range []string{
		`files.all(a, files.all(b, files.all(c, files.all(d, a.name + b.name != c.name + d.name || true))))`,
		`files.all(a, files.all(b, files == files))`,
		`files.all(a, files.all(b, args == args && env == env && files in [files]))`,
		`files.map(a, files.map(b, files.map(c, a.content + b.content + c.content))).size() > 0`,
		`files.all(a, files.all(b, source.matches('(a+)+$') && source.matches('(a|aa)+$')))`,
		`source.matches('[A-Za-z0-9+/]{1000}')`,
		`files.all(f, source.matches('(' + f.content + '){3}b') || true)`,
		`files.exists(f, ''.matches('(?:' + f.content + f.content + f.content + '){1000}'))`,
		`files.all(a, files.all(b, !''.matches(a.name + b.name + '[a-z]{900}')))`,
		`files.exists(a, files.exists(b, files.exists(c, (source + source + source).contains('b'))))`,
	} {
		// A job with less in it has these two take as long: they end by what they cost.
		if testing.Short() && (strings.Contains(when, "(a+)+$") || strings.Contains(when, "c.content")) {
			continue
		}
		start := time.Now()
		v := Decide(large, mustParse(t, hold("rule", when)))
		took := time.Since(start)
		t.Logf("%s: %s, %v", when, took, v.Fault)
		if v.Fault == nil || v.Held() {
			t.Errorf("%s: got %+v, want it refused", when, v)
		}
		// A second at most by itself, and 45 s with the race detector on a busy machine; without a bound some of these take hours.
		if took > gbtest.Patience {
			t.Errorf("%s: took %s", when, took)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, field, message string
		rules                []job.Rule
	}{
		{"no bool", "policy[0].when", "is of type string", rules(deny("a", "source"))},
		{"no expression", "policy[0].when", "is no expression", rules(deny("a", "source =="))},
		{"unknown variable", "policy[1].when", "undeclared reference to 'sauce'", rules(deny("a", "true"), deny("b", "sauce == ''"))},
		{"unknown method", "policy[0].when", "undeclared reference to 'lower'", rules(deny("a", "source.lower() == ''"))},
		{"deep", "policy[0].when", "recursion", rules(deny("a", strings.Repeat("!(", 200)+"true"+strings.Repeat(")", 200)))},
		{"long", "policy[0].when", "empty or too long", rules(deny("a", "'"+strings.Repeat("a", job.MaxRuleWhenBytes)+"' == ''"))},
		{"empty", "policy[0].when", "empty or too long", rules(deny("a", ""))},
		{"no name", "policy[0].name", "is not valid", rules(deny("", "true"))},
		{"name", "policy[0].name", "is not valid", rules(deny("A b", "true"))},
		{"twice", "policy[1].name", "more than once", rules(deny("a", "true"), hold("a", "true"))},
		{"then", "policy[0].then", "is not known", rules(job.Rule{Name: "a", When: "true", Then: "allow"})},
		{"hold of a deny", "policy[0].hold_seconds", "out of range", rules(job.Rule{Name: "a", When: "true", Then: job.RuleDeny, HoldSeconds: 5})},
		{"long hold", "policy[0].hold_seconds", "out of range", rules(job.Rule{Name: "a", When: "true", Then: job.RuleHold, HoldSeconds: 31 * 86400})},
		{"message", "policy[0].message", "too long", rules(job.Rule{Name: "a", When: "true", Then: job.RuleHold, Message: strings.Repeat("m", 600)})},
		{"too many", "policy", "too many", make([]job.Rule, job.MaxRules+1)},
	}
	for _, c := range cases {
		_, err := Parse("policy", c.rules)
		var invalid job.Invalid
		if !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want job.Invalid", c.name, err)
			continue
		}
		found := false
		for _, e := range invalid {
			found = found || e.Field == c.field && strings.Contains(e.Message, c.message)
		}
		if !found {
			t.Errorf("%s: got %v, want %s: … %s …", c.name, err, c.field, c.message)
		}
	}
}

// TestRulesOfAFile: a file without a list of rules is a mistake, and so are rules that nobody would read.
func TestRulesOfAFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "no list of rules", "# nothing": "no list of rules", "policy:": "no list of rules", "{}": "no list of rules", "null": "no list of rules", "policy: 3": "no list of rules",
		"polcy: []": "no list of rules", "policy: []\n---\npolicy: [{name: a, when: 'true', then: deny}]": "more than one document",
	} {
		if _, err := ParseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"policy: []", "---\npolicy: []\n", `{"policy": []}`} {
		if p, err := ParseFile([]byte(text)); err != nil || !p.Empty() {
			t.Errorf("%q: got %v, %v, want no rules", text, p, err)
		}
	}
}

// TestRulesTogether: what all rules calculate about a job is bounded, not what each does.
func TestRulesTogether(t *testing.T) {
	t.Parallel()
	when := "source.matches('[a-y]{20}z')"
	if testing.Short() {
		when = "source.contains('" + strings.Repeat("z", 64) + "')" // takes less time for what it costs
	}
	var all []job.Rule
	for i := range job.MaxRules {
		all = append(all, deny(fmt.Sprintf("r%d", i), when))
	}
	p := mustParse(t, all...)
	large := Subject{Kind: KindJob, Spec: job.Spec{Source: strings.Repeat("aaaaa ", 1<<18)}}
	if v := Decide(large, mustParse(t, all[0])); v.Fault != nil {
		t.Errorf("one rule: got %+v", v)
	}
	if v := Decide(large, p, p); v.Fault == nil || !strings.Contains(v.Fault.Error(), "too long") {
		t.Errorf("all rules: got %+v, want it refused", v)
	}
}

// TestStartOfASession is judged by what denies, also behind what would hold an execution.
func TestStartOfASession(t *testing.T) {
	t.Parallel()
	p := mustParse(t, hold("look", "true"), deny("no", "token == 'agent'"))
	for token, want := range map[string]string{"agent": "no", "": ""} {
		if v := Decide(Subject{Kind: KindSession, Token: token}, p); v.Rule.Name != want || v.Held() {
			t.Errorf("%q: got %+v, want %q", token, v, want)
		}
	}
}

// TestDocumentedVariables: docs/policy.md has each variable, and its rules can be read.
func TestDocumentedVariables(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Variables() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/policy.md has no line for the variable %s", name)
		}
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	if !found {
		t.Fatal("docs/policy.md shows no rules")
	}
	file, _, _ := strings.Cut(rest, "```")
	if _, err := ParseFile([]byte(file)); err != nil {
		t.Errorf("the rules of docs/policy.md: %v", err)
	}
}

// FuzzParseFile: no file of rules, and no job judged by them, makes anything but an answer.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte("policy:\n- {name: a, when: \"source.contains('x')\", then: deny}\n"), "x")
	f.Add([]byte(`{"policy": [{"name": "b", "when": "files.all(f, f.size > 1)", "then": "hold", "hold_seconds": 5}]}`), "")
	f.Add([]byte("policy: 3"), "")
	f.Fuzz(func(t *testing.T, file []byte, source string) {
		p, err := ParseFile(file)
		if err != nil {
			return
		}
		v := Decide(Subject{Kind: KindJob, Spec: job.Spec{Source: source, Files: []job.File{{Name: source, Content: source}}}}, p)
		if v.Fault != nil && v.Denied() == nil {
			t.Errorf("%+v is let pass", v)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	p := mustParse(b, deny("a", "image != ''"), hold("b", "source.contains('subprocess')"), deny("c", "limits.memory_mb > 1024"))
	s := Subject{Kind: KindJob, Spec: job.Spec{Runtime: "python", Source: strings.Repeat("print(1)\n", 50)}, Limits: job.Limits{MemoryMB: 256}}
	for b.Loop() {
		if v := Decide(s, p); v.Rule.Name != "" {
			b.Fatal(v)
		}
	}
}
