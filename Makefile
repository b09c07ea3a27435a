# Everything that is done to this tree by hand or by machine. `make` alone lists it.

.DEFAULT_GOAL := help
.PHONY: help setup setup-demo setup-tests build runtimes demo check vulns fmt terraform-lint terraform-test test test-host test-record test-podman test-long test-valkey failover simulate simulate-record test-runtimes measure-runtimes test-vm chaos chaos-sessions fleet soak soak-sessions soak-grading submissions any-specs python-suite bench fuzz release release-check release-key clean FORCE
SHELL := /bin/bash

# Where infra/setup.sh puts a Go, on machines whose own is too old.
export PATH := /usr/local/lib/glovebox/go/bin:$(PATH)

# What the Podman bindings need to be compiled without C libraries. The same three are
# in .golangci.yml; CONTRIBUTING.md says how an editor gets them.
PODMAN_TAGS := remote containers_image_openpgp exclude_graphdriver_btrfs

# Packages whose tests run sandboxes: as the user who owns them, never as root.
PODMAN_PACKAGES := ./cmd/glovebox/internal/imagebucket ./worker ./worker/sandbox/podman ./worker/sandbox/process ./cmd/glovebox-worker/... ./runtimes/... ./e2e/...
# Those of documents are make check's.
host_packages = $$(go list ./... | grep -vxF "$$(go list $(PODMAN_PACKAGES) ./internal/docstest)")
# Of these, those that take the longest. They begin first: in the order of their names one would go on alone at the end.
longest := ./producer/api ./internal/record ./cmd/glovebox ./infra ./producer/direct ./deliverer
as_podman_user := -tags '$(PODMAN_TAGS)' -exec '$(CURDIR)/infra/as-podman-user.sh'

# The end-to-end tests run the commands, built with points at which to fail, and a client
# generated from the OpenAPI document, from a directory that the Podman user can enter.
with_test_binaries = bin=$$(mktemp -d /tmp/glovebox-bin.XXXXXX) && trap 'rm -rf "$$bin"' EXIT && chmod 755 "$$bin" && \
	$(static) go build -tags 'failpoint $(PODMAN_TAGS)' -o "$$bin/" ./cmd/... ./e2e/example && \
	( cd e2e/openapi && $(static) go generate && $(static) go build -o "$$bin/" . ) && export GLOVEBOX_TEST_BIN="$$bin" &&

COMMANDS := $(notdir $(wildcard cmd/*))
# Tests that find one of these missing fail instead of being skipped.
export GLOVEBOX_TEST_REQUIRE ?= redis,s3,podman,npm,python3
GOLANGCI_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.8.0
NFPM_VERSION := v2.45.0
TFLINT_VERSION := v0.64.0
TFLINT_AWS_VERSION := v0.48.0
FUZZTIME ?= 1m
# How many sandboxes a benchmark starts.
BENCHTIME ?= 30x
# Benchmarks that take many minutes run only by name. Fresh, Artifact and Grade are in the table, too; Arrivals, Burst and IdleMemory want a
# BENCHTIME of their own.
bench_skip = $(if $(BENCH),,-skip 'PickUp|Fresh|Artifact|Arrivals|Burst|CompiledCheckers|Dialog|ForkedTests|Grade|IdleMemory|Paced')
# Evaluated once, where it is used.
bench_name = $(eval bench_name := docs/benchmarks/$(shell date +%F)-$(shell git rev-parse --short HEAD))$(bench_name)
bench_file = grep --line-buffered -v 'no test files' | tee -a $(bench_name).txt
TESTFLAGS ?=
# Suites without sandboxes at once: one more than the processors, as a suite waits for a part of its time.
suites := -p $(shell echo $$(($$(nproc) + 1)))
# The two that are mostly sandboxes run one after the other. Each keeps every processor busy: its tests go on as gbtest.WhenIdle lets
# them. Four sandboxes at once on two processors took 1.8 times the processor time that one after the other took, and 1.4 times as
# long as two.
sandbox_suites := ./worker ./worker/sandbox/podman

# $(call summed,go test ...) says at its end what failed: mawk reads a pipe by blocks, so it reads what tee kept.
summed = { log=$$(mktemp) && $(1) 2>&1 | tee "$$log"; status=$${PIPESTATUS[0]}; awk -f infra/failures.awk "$$log"; rm -f "$$log"; exit $$status; }

# No debugging information, which costs compilers a seventh of their time: `go build` by itself makes it.
lean := -gcflags=all=-dwarf=false -ldflags=-w
export GOFLAGS := $(filter-out $(lean),$(GOFLAGS)) $(lean)

# Static commands. check compiles the same way, so that the two share Go's build cache.
static := CGO_ENABLED=0 GOFLAGS="-trimpath $$GOFLAGS"

# $(call timed,what,commands) says how long the commands took.
timed = @start=$$SECONDS; echo "== $(1)"; ( $(2) ); status=$$?; echo "== $(1): $$((SECONDS - start)) s, exit $$status"; exit $$status

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what this machine lacks, build the runtimes' images
	$(call timed,setup,infra/setup.sh)

build: ## build the commands into bin/
	$(call timed,build,$(MAKE) --no-print-directory $(addprefix bin/,$(COMMANDS)))

bin/glovebox-worker: tags := -tags '$(PODMAN_TAGS)'
bin/%: FORCE
	$(static) go build $(tags) -o $@ ./cmd/$*

runtimes: bin/glovebox ## build the images of all of runtimes/ that are missing, not only of the core; ONLY="rust ruby" for some
	bin/glovebox runtimes build $(or $(ONLY),--all)

demo: setup-demo build ## run one job from submission to verified webhook
	$(call timed,demo,infra/demo.sh)

setup-demo: # of the images only the one that the demo needs
	$(call timed,setup,infra/setup.sh --runtimes python)

scripts := .ci/run $(wildcard infra/*.sh infra/aws/*.sh infra/runsc/*.sh infra/release/*.sh infra/deb/*.sh infra/deb/*.p* terraform/*.sh terraform/templates/*.sh e2e/vm/*.sh e2e/vm/guest/*.sh e2e/vm/root/usr/local/sbin/* runtimes/*/*.sh)

tflint := bin/tflint-$(TFLINT_VERSION)
tflint_aws := bin/tflint-plugins-$(TFLINT_AWS_VERSION)/tflint-ruleset-aws
# Building tflint takes three minutes, and terraform/ changes seldom: check compares it with what terraform-lint passed.
tflint_sum = { echo "tflint $(TFLINT_VERSION), ruleset aws $(TFLINT_AWS_VERSION)"; \
	git ls-files -co --exclude-standard -- 'terraform/*.tf' 'terraform/*.hcl' | LC_ALL=C sort | xargs sha256sum; }
terraform_checks = $(if $(shell command -v terraform),terraform fmt -check -diff -recursive terraform, \
	echo "SKIPPED: the format of terraform/ is not checked: this machine has no terraform") && \
	{ $(tflint_sum) | diff terraform/tflint.sum - || { echo "terraform/, or a version of tflint's, is not what tflint has passed: run make terraform-lint, and commit terraform/tflint.sum"; exit 1; }; }

check: bin/golangci-lint-$(GOLANGCI_VERSION) ## format, lint with vet, shellcheck and the documents' names and prose, without changing anything
	$(call timed,format,bin/golangci-lint-$(GOLANGCI_VERSION) fmt --diff)
	$(call timed,modules,go mod tidy -diff && cd e2e/openapi && go generate && go mod tidy -diff)
	$(call timed,shell scripts,command -v shellcheck >/dev/null || infra/setup-tests.sh && shellcheck $(scripts))
	$(call timed,terraform,$(terraform_checks))
	$(call timed,documents,$(static) go test ./internal/docstest)
	$(call timed,lint,$(static) bin/golangci-lint-$(GOLANGCI_VERSION) run)

fmt: bin/golangci-lint-$(GOLANGCI_VERSION) ## format the tree
	bin/golangci-lint-$(GOLANGCI_VERSION) fmt

# Not part of check: it needs the list of vulnerabilities at vuln.go.dev, which not every network reaches.
vulns: bin/govulncheck-$(GOVULNCHECK_VERSION) ## look for known vulnerabilities in what the commands call
	$(call timed,vulnerabilities,bin/govulncheck-$(GOVULNCHECK_VERSION) -tags '$(PODMAN_TAGS)' ./...)

# $(call tool,name,package@version) installs a program of Go's as $@.
tool = $(call timed,build $(1),mkdir -p bin/tool-$(1) && CGO_ENABLED=0 GOFLAGS='-trimpath $(lean)' GOBIN=$(CURDIR)/bin/tool-$(1) go install $(2) && mv bin/tool-$(1)/$(1) $@ && rmdir bin/tool-$(1))

bin/govulncheck-%:
	$(call tool,govulncheck,golang.org/x/vuln/cmd/govulncheck@$*)

bin/golangci-lint-%:
	$(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*)

bin/tflint-v%:
	$(call tool,tflint,github.com/terraform-linters/tflint@v$*)

# A ruleset is a program that tflint finds by its name. The module proxy has the version, but
# not the list of versions that go install asks for.
bin/tflint-plugins-%/tflint-ruleset-aws:
	$(call timed,build tflint-ruleset-aws,mkdir -p $(@D)/build && cd $(@D)/build && \
		printf 'module build\n\ngo 1.26\n\nrequire github.com/terraform-linters/tflint-ruleset-aws %s\n' $* >go.mod && \
		CGO_ENABLED=0 GOFLAGS='-mod=mod -trimpath $(lean)' go build -o ../tflint-ruleset-aws.new github.com/terraform-linters/tflint-ruleset-aws && \
		cd .. && rm -r build && mv tflint-ruleset-aws.new tflint-ruleset-aws)

terraform-lint: $(tflint) $(tflint_aws) ## lint terraform/ with tflint, and note in terraform/tflint.sum what passed
	$(call timed,tflint,TFLINT_PLUGIN_DIR=$(CURDIR)/$(dir $(tflint_aws)) $(tflint) --chdir=terraform --recursive --config=$(CURDIR)/terraform/.tflint.hcl && \
		$(tflint_sum) >terraform/tflint.sum)

# Not part of check: it needs the AWS provider, of the registry or in GLOVEBOX_TERRAFORM_PROVIDER.
terraform-test: ## validate terraform/ and run its tests, which mock AWS; GLOVEBOX_TERRAFORM_PROVIDER=DIR: with the provider there
	$(call timed,terraform's tests,terraform/test.sh)

setup-tests: setup # which makes bin/glovebox, too; multi has what sessions with contexts and E2B's clients are tested with
	$(call timed,setup of what only tests need,infra/setup-tests.sh && $(MAKE) --no-print-directory bin/glovebox && bin/glovebox runtimes build multi)

test: setup-tests build ## set up, then every suite against the real components, all but e2e with the race detector
	@$(MAKE) --no-print-directory test-host
	@$(MAKE) --no-print-directory -j2 test-podman test-record

# -short leaves out what repeats a test in another form, or waits for minutes: test-long has it. make check vets all.
SHORT := -short
test-host: ## the suites that need no sandbox: Redis, S3, everything pure
	$(call timed,test without sandboxes,$(call summed,go test -race -vet=off -count=1 -timeout 60m $(SHORT) $(suites) $(TESTFLAGS) $(longest) $(host_packages)))

# Without the race detector, which test-host has for 20: it takes five times as long.
SCHEDULES ?= 100000
schedules = GLOVEBOX_SIMULATE=$(1) $(static) go test -v -count=1 -timeout 4h -run 'TestSimulate$$' ./internal/record/

failover: ## Sentinels: each server in turn killed, the primary silent, and what that loses with which settings; takes minutes
	$(call timed,failover,GLOVEBOX_FAILOVERS=1 go test -count=1 -timeout 30m -v -run 'TestFailovers|TestPrimary' ./internal/record)

# Packages that talk to Redis, except for those that run sandboxes.
redis_packages := ./internal/record ./internal/redisacl ./internal/redisconn ./internal/queue ./internal/fleet ./internal/metrics ./internal/secrets \
	./internal/simulation ./producer/... ./deliverer/... ./cmd/glovebox/...
test-valkey: export GLOVEBOX_TEST_REDIS_SERVER := $(CURDIR)/bin/valkey/valkey-server
test-valkey: ## what talks to Redis on Debian 13's Valkey: its suites, the failovers, 300 schedules
	$(call timed,get valkey,infra/valkey.sh bin/valkey)
	$(call timed,test with valkey,$(call summed,go test -vet=off -count=1 -timeout 60m $(SHORT) $(suites) $(TESTFLAGS) $$(go list $(redis_packages) | grep -v /imagebucket)))
	@$(MAKE) --no-print-directory failover simulate-record SCHEDULES=300

simulate-record: ## SCHEDULES random schedules of everything that changes a record, on a real Redis; GLOVEBOX_SIMULATE_SEED=N: one of them
	$(call timed,simulate the record,$(call schedules,$(SCHEDULES)))

test-record: ## 500 of simulate-record's schedules
	$(call timed,simulate the record,$(call schedules,500))

# What GLOVEBOX_SIMULATE_SEED, _JOBS, _WORKERS and _SPREAD do, is in internal/simulation.
simulate: ## a fleet of 200 workers without their sandboxes, 100,000 jobs of 50 tenants, on a real Redis: plots and figures into docs/
	$(call timed,simulate a fleet,dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && export GLOVEBOX_SIMULATE_FLEET="$$dir" && \
		go test -v -count=1 -timeout 2h -run 'TestFleet$$|TestWantedFollows$$' ./internal/simulation/ && \
		cp "$$dir/simulation.md" docs/benchmarks/ && cp "$$dir"/*.svg docs/scale/)

# `go list -export` compiles for all suites at once. e2e's has no race detector, as the commands that it runs have none. It shares
# their packages in Go's build cache.
e2e_suites := $(filter ./e2e%,$(PODMAN_PACKAGES))
raced_suites := $(filter-out $(e2e_suites),$(PODMAN_PACKAGES))
# $(call sandbox_tests,suites,flags,environment) is nothing where there are no suites.
sandbox_tests = $(if $(1),$(3) go test $(2) -vet=off -count=1 -timeout 60m $(SHORT) $(as_podman_user) $(TESTFLAGS) $(1) || status=1;)
test-podman: ## the suites that run sandboxes, as the user who runs Podman
	$(call timed,test with sandboxes,$(with_test_binaries) $(if $(raced_suites),go list -race -test -export -tags '$(PODMAN_TAGS)' $(raced_suites) >/dev/null &&) \
		$(call summed,( status=0; $(call sandbox_tests,$(filter $(sandbox_suites),$(raced_suites)),-race -p 1) \
			$(call sandbox_tests,$(filter-out $(sandbox_suites),$(raced_suites)),-race $(suites)) \
			$(call sandbox_tests,$(e2e_suites),-p 1,$(static)) exit $$status )))

test-long: setup-tests build ## every suite with what `make test` leaves out: attacks and preloads in their other forms, what waits for minutes
	@$(MAKE) --no-print-directory test-host test-podman SHORT=

# Those of the core are in test-podman. With ONLY, an image can be removed again before the next is built.
test-runtimes: setup-tests build runtimes ## every case of every runtime, the core or not, and each name that façades have for it, and problem packages; ONLY="rust ruby" for some
	$(call timed,test the runtimes,export GLOVEBOX_TEST_RUNTIMES="$(or $(ONLY),all)"; \
		go test -v -count=1 -timeout 60m $(as_podman_user) $(TESTFLAGS) -run 'TestCases$$|TestPreloaded(R|Octave)' ./worker/sandbox/podman/ && $(e2e) -run 'TestFacadeLanguages$$|TestGradePackages$$' ./e2e/)

# As the Podman user, who can't write into this tree.
measure-runtimes: ## sizes and times of the runtimes that are built, into docs/benchmarks/runtimes.md
	$(call timed,measure the runtimes,dir=$$(mktemp -d /tmp/glovebox-measure.XXXXXX) && trap 'rm -rf "$$dir"' EXIT && chmod 1777 "$$dir" && \
		GLOVEBOX_MEASURE_RUNTIMES="$$dir/runtimes.md" go test -v -count=1 -timeout 60m $(as_podman_user) -run 'TestMeasureRuntimes$$' ./worker/sandbox/podman/ && \
		cp "$$dir/runtimes.md" docs/benchmarks/runtimes.md)

test-vm: setup ## a production worker host and new installations in virtual Debian machines; ONLY="limits users" for some parts
	$(call timed,test in a virtual machine,e2e/vm/run.sh)

CHAOS_JOBS ?= 300
CHAOS_KILLS ?= 5
SOAK_JOBS ?= 2000
e2e = $(with_test_binaries) go test -race -v -count=1 -timeout 2h $(as_podman_user) $(TESTFLAGS)

chaos: setup-tests build ## CHAOS_JOBS jobs while everything is killed, CHAOS_KILLS times at each step
	$(call timed,chaos,export GLOVEBOX_CHAOS_JOBS=$(CHAOS_JOBS) GLOVEBOX_CHAOS_KILLS=$(CHAOS_KILLS); $(e2e) -run 'TestChaos$$' ./e2e/)

FLEET_JOBS ?= 2000
fleet: setup-tests build ## four workers in network namespaces of their own, FLEET_JOBS jobs: one is cut off, one is killed, one is drained
	$(call timed,fleet,export GLOVEBOX_FLEET_JOBS=$(FLEET_JOBS); $(e2e) -run 'TestFleet$$' ./e2e/)

soak: setup-tests build ## SOAK_JOBS hostile jobs in a row on one worker, whose figures must stay flat
	$(call timed,soak,export GLOVEBOX_SOAK_JOBS=$(SOAK_JOBS); $(e2e) -run 'TestSoak$$' ./e2e/)

SESSIONS ?= 60
EXECUTIONS ?= 20
chaos-sessions: setup-tests build ## SESSIONS sessions of EXECUTIONS each while everything is killed: each loss has to be told
	$(call timed,chaos of sessions,export GLOVEBOX_CHAOS_SESSIONS=$(SESSIONS) GLOVEBOX_CHAOS_EXECUTIONS=$(EXECUTIONS); $(e2e) -run 'TestSessionChaos$$' ./e2e/)

SOAK_SESSIONS ?= 1000
soak-sessions: setup-tests build ## SOAK_SESSIONS sessions opened and ended in a row on one worker, of which nothing may be left
	$(call timed,soak of sessions,export GLOVEBOX_SOAK_SESSIONS=$(SOAK_SESSIONS); $(e2e) -run 'TestSessionSoak$$' ./e2e/)

SOAK_GRADINGS ?= 1000
SOAK_MB ?= 200
soak-grading: setup-tests build ## SOAK_GRADINGS submissions of a problem of SOAK_MB on one worker, which reads the bucket once
	$(call timed,soak of gradings,export GLOVEBOX_SOAK_GRADINGS=$(SOAK_GRADINGS) GLOVEBOX_SOAK_MB=$(SOAK_MB); go test -v -count=1 -timeout 8h $(as_podman_user) $(TESTFLAGS) -run 'TestGradingsReadTheBucketOnce$$' ./worker/)

ROUNDS ?= 20
submissions: setup-tests build ## right, wrong, slow, crashing and cheating submissions, ROUNDS times: each has to come to the same each time
	$(call timed,submissions,export GLOVEBOX_TEST_ROUNDS=$(ROUNDS); go test -v -count=1 -timeout 3h $(as_podman_user) $(TESTFLAGS) -run 'TestSubmissions$$' ./worker/)

SPECS ?= 1000
SEED ?= $(shell date +%s)
any-specs: setup-tests build ## SPECS random specs that pass the check, none of which may be our failure; SEED repeats a run
	$(call timed,any specs,export GLOVEBOX_ANY_SPECS=$(SPECS) GLOVEBOX_ANY_SEED=$(SEED); go test -v -count=1 -timeout 3h $(as_podman_user) $(TESTFLAGS) -run 'TestAnySpec$$' ./worker/)

MODULES ?= all
python-suite: setup ## CPython's own tests with and without what is put into Python; MODULES="test_io test_csv" for some
	$(call timed,Python's suite,export GLOVEBOX_PYTHON_SUITE="$(MODULES)"; go test -count=1 -timeout 3h $(as_podman_user) $(TESTFLAGS) -run 'TestPythonSuite$$' ./worker/sandbox/podman/)

# The table needs the commands as they are released, where the Podman user can run them.
bench: setup build ## compare with podman, runsc and python3 and run every benchmark, into docs/benchmarks/; BENCH=regexp: only these benchmarks
	@mkdir -p docs/benchmarks
	@rm -f $(bench_name).txt
	$(call timed,benchmarks without sandboxes,set -o pipefail; go test -run '^$$' -bench '$(or $(BENCH),.)' $(bench_skip) -timeout 30m $(TESTFLAGS) $(host_packages) | $(bench_file))
	$(call timed,benchmarks with sandboxes,set -o pipefail; $(with_test_binaries) go test -p 1 -run '^$$' -bench '$(or $(BENCH),.)' $(bench_skip) -benchtime $(BENCHTIME) -timeout 30m $(as_podman_user) $(TESTFLAGS) $(PODMAN_PACKAGES) | $(bench_file))
	$(if $(BENCH),,$(call timed,table,$(bench_table)))

bench_table = bin=$$(mktemp -d /tmp/glovebox-bin.XXXXXX) && trap 'rm -rf "$$bin"' EXIT && chmod 755 "$$bin" && \
	install -d -m 1777 "$$bin/out" && install -m 755 bin/glovebox* "$$bin/" && install -m 644 $(bench_name).txt "$$bin/raw.txt" && \
	$(static) go test -c -tags '$(PODMAN_TAGS)' -o "$$bin/e2e.test" ./e2e/ && cd e2e && \
	GLOVEBOX_TEST_BIN="$$bin" GLOVEBOX_BENCH_RAW="$$bin/raw.txt" GLOVEBOX_BENCH_TABLE="$$bin/out/table.md" \
	GLOVEBOX_BENCH_COMMIT=$$(git describe --always --dirty --exclude '*') \
	../infra/as-podman-user.sh "$$bin/e2e.test" -test.run 'TestBench$$' -test.timeout 90m; status=$$?; \
	cp "$$bin/out/table.md" ../$(bench_name).md && cat ../$(bench_name).md && exit $$status

fuzz: ## each fuzz target for FUZZTIME (1m)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func / /' | while read -r file target; do \
		echo "== $$target in $$(dirname "$$file")"; \
		go test -tags '$(PODMAN_TAGS)' -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname "$$file")" || exit; \
	done

# Everything of a release is compiled, and compressed, by one version of Go: that of infra/setup.sh.
release release-check release-key: export GOTOOLCHAIN = go$(shell sed -n 's/^readonly go_version=\([0-9.]*\).*/\1/p' infra/setup.sh)
RELEASE_ARCHS ?= amd64,arm64
# What is in it already, which has to be a release, is deleted.
RELEASE_OUT ?= bin/release
releaser := $(static) go run ./infra/release

release: bin/nfpm-$(NFPM_VERSION) ## make a release of the last commit, into RELEASE_OUT (bin/release/), in place of what is there, signed with GLOVEBOX_RELEASE_KEY
	$(call timed,release,$(releaser) -nfpm bin/nfpm-$(NFPM_VERSION) -arch $(RELEASE_ARCHS) -out '$(RELEASE_OUT)')

# In another directory, with none of what Go has compiled.
release-check: ## make the release in RELEASE_OUT (bin/release/) once more in a new clone, compare all bytes, and start its programs, also those for another kind of machine
	$(call timed,release once more,dir=$$(mktemp -d) && trap 'chmod -R u+w "$$dir"; rm -rf "$$dir"' EXIT && git clone -q . "$$dir/again" && \
	GOCACHE="$$dir/cache" $(MAKE) --no-print-directory -C "$$dir/again" release RELEASE_OUT=bin/release && diff -r '$(RELEASE_OUT)' "$$dir/again/bin/release" && \
	infra/release/starts.sh '$(RELEASE_OUT)')

release-key: ## print the public key of GLOVEBOX_RELEASE_KEY, as "glovebox verify --keys" reads it
	@$(releaser) -key

bin/nfpm-%:
	$(call tool,nfpm,github.com/goreleaser/nfpm/v2/cmd/nfpm@$*)

clean: ## remove what the other targets built in this tree
	rm -rf bin

FORCE:
