# Needs Go, git, make and a C compiler (for the race detector); the rest is fetched.

GO ?= go
GOLANGCI_LINT = $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Without a redis-server the tests that need one fail, instead of being skipped.
export REDLATCH_REQUIRE_REDIS = 1
export REDLATCH_REQUIRE_PROXY = 1
export REDLATCH_REQUIRE_POSTGRESQL = 1
export REDLATCH_REQUIRE_MARIADB = 1
# The race detector sleeps for a second at the end of each process.
export GORACE = atexit_sleep_ms=0

# make test REDIS_SERVER=/opt/valkey/bin/valkey-server: a server that is not the one in PATH.
ifdef REDIS_SERVER
export REDLATCH_REDIS_SERVER = $(REDIS_SERVER)
endif

# All modules are in go.work: "work" is every package of theirs, and EACH runs a command in each.
EACH = GO='$(GO)' ./scripts/each.sh
# Without vet: make lint vets. Without the MessagePack of gin: it takes long to compile.
TEST = $(GO) test -count=1 -vet=off -ldflags=-s -tags nomsgpack -p 3 -parallel 4 -timeout 15m
LISTED = $(GO) list work | grep -v -e /guardweb/browser -e /redlatch/bench
# The race detector is for packages whose goroutines are ours, but not for the models, whose searches it makes ten times
# slower. nethttp runs all of adaptertest, and watermill all of tasktest. make race takes it to all packages.
OURS = grep -e '/redlatch/guard$$' -e /redlatch/guard/ -e /nethttp -e /watermill | grep -v /internal/model

# make race COUNT=10, make bench ARGS=-quick, make microbench BENCH=WithLock COUNT=10,
# make fuzz FUZZTIME=5m, make several FOR=10m, make example ARGS=-unguarded
BENCH ?= .
FUZZTIME ?= 30s

.DEFAULT_GOAL := help

.PHONY: help
help: # What one needs for a change
	@awk 'BEGIN { FS = ":.* ## " } /^[a-z]+:.* ## / { printf "  make %-10s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  make help-all    All targets'

.PHONY: help-all
help-all:
	@awk 'BEGIN { FS = ":.* ###? " } /^[a-z]+:.* ###? / { printf "  make %-12s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: redis
redis: ### Install redis-server if it is missing
	@./scripts/install.sh redis-server

.PHONY: postgres
postgres: ### Install PostgreSQL if it is missing, for the tests of guardsql, guardriver and examples
	@./scripts/install.sh postgresql

.PHONY: mariadb
mariadb: ### Install MariaDB if it is missing, for the tests of guardsql
	@./scripts/install.sh mariadb-server

# Installing waits for the network, compiling for the CPU. The two runs compile nothing that the other compiles, too.
.PHONY: test
test: ## Run all tests once, ours with the race detector, on a real redis-server
	@$(MAKE) -j 2 servers compile
	@$(MAKE) -j 2 test-raced test-plain

.PHONY: servers
servers: # one after another: apt has a lock
	@for server in redis-server postgresql mariadb-server; do ./scripts/install.sh $$server || exit 1; done
	@./scripts/install.sh promtool || test '$(REDLATCH_REQUIRE_PROMTOOL)' != 1

.PHONY: compile
compile:
	@$(GO) build -race ./guard/... ./middleware/nethttp

.PHONY: quick
quick: ## Test guard without a server and the race detector: memory store, virtual time, the models' small bounds
	REDLATCH_REQUIRE_REDIS=0 $(GO) test -short -ldflags=-s -vet=off -parallel 8 $$($(GO) list ./guard/... | grep -v -e /browser -e /chaos -e /inspect -e /redis)

.PHONY: test-raced
test-raced:
	$(TEST) -race $$($(LISTED) | $(OURS))

.PHONY: test-plain
test-plain: # guard_test.go last: it builds a program of packages that the others compile, too
	$(TEST) $$($(LISTED) | grep -vxF "$$($(LISTED) | $(OURS))" | sort -r)

# What the oldest versions lack is found by those of go.mod; go fetches that Go by itself. Two tools
# and the shop of guard_test.go take the Go of go.work, which is newer.
.PHONY: floor
floor: redis postgres mariadb ### Test the root module on the oldest Go and go-redis, those of go.mod
	@export GOWORK=off GOTOOLCHAIN=go$$(awk '$$1 == "go" { print $$2 }' go.mod) && \
	$(GO) test -count=1 -parallel 4 -timeout 15m $$($(GO) list ./... | grep -v -e /redlatch$$ -e /internal/mutants$$ -e /internal/release)

.PHONY: newest
newest: redis postgres mariadb ### Test the same on the newest go-redis
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp go.mod go.sum "$$dir" && export GOWORK=off && \
	$(GO) get -modfile="$$dir/go.mod" github.com/redis/go-redis/v9@latest && \
	$(GO) test -modfile="$$dir/go.mod" -count=1 -parallel 4 -timeout 15m ./...

.PHONY: model
model: redis ### Search the models within larger bounds, and break each rule: minutes, some gigabytes
	$(GO) test -count=1 -timeout 60m -v -p 1 ./guard/internal/model/... -large

.PHONY: test-bench
test-bench: redis ### Test the benchmarks, alone: its scenarios are short, and a busy machine leaves nothing to measure
	$(TEST) ./bench/...

.PHONY: browser
browser: ### Test the JavaScript of the page of locks in a Chromium or Chrome that is in the PATH
	$(TEST) ./guard/inspect/guardweb/browser

.PHONY: alerts
alerts: ### Test the alerts with promtool, where it can be had; REDLATCH_REQUIRE_PROMTOOL=1 insists
	@./scripts/install.sh promtool || test '$(REDLATCH_REQUIRE_PROMTOOL)' != 1
	$(TEST) -run '^TestAlerts' ./examples/observability

.PHONY: docs
docs: redis ### Check the documents: links, words per page, snippets, facts, rights, exit codes, alerts
	$(TEST) ./internal/readme
	$(TEST) -run '^Test(ACL|Alerts|Doctor_TheDocumented|Names|Table|Usage|Answers_Reason)' ./guard ./guard/inspect ./cmd/redlatch/... ./examples/observability ./middleware/internal/httplock ./middleware/grpc

.PHONY: cover
cover: redis postgres mariadb ### Print how much of guard, guardsql, the adapters and tracing the tests run
	@GO='$(GO)' ./scripts/cover.sh

.PHONY: race
race: COUNT ?= 3
race: redis postgres mariadb ### Hunt for rare schedules: all tests shuffled, COUNT times on 1 and on 4 threads
	$(GO) test -race -count=$(COUNT) -parallel 4 -cpu 1,4 -shuffle on -timeout 60m $$($(LISTED) | grep -v /internal/model)

.PHONY: lint
lint: ## Check style, import walls, formatting, every go.mod, sizes of files, and -run patterns
	./scripts/tree.sh
	$(GOLANGCI_LINT) run $$($(GO) list -m -f '{{.Dir}}/...')
	GOWORK=off $(EACH) $(GO) mod tidy -diff
	@sums=$$(cat go.work.sum); $(GO) list -m all >/dev/null; \
	[ "$$sums" = "$$(cat go.work.sum)" ] || { echo 'go.work.sum lacked lines, which go doc adds: commit it'; exit 1; }
	$(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: alone
alone: ### Compile each module with the versions of its own go.mod: those of go.work are newer
	GOWORK=off $(EACH) $(GO) vet ./...

.PHONY: vuln
vuln: ### Say which known holes the code of each module reaches
	GOWORK=off $(EACH) $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

.PHONY: tidy
tidy: ### Tidy every go.mod
	GOWORK=off $(EACH) $(GO) mod tidy
	rm -f go.work.sum # else it keeps lines that nothing needs
	$(GO) list -m all >/dev/null && $(GO) list -deps -test work >/dev/null # both write what they need

.PHONY: fmt
fmt: ## Format the code
	$(GOLANGCI_LINT) fmt ./...

.PHONY: bench
bench: redis ### Compare with other lock libraries, with ARGS; writes bench/RESULTS.md
	cd bench && $(GO) run . $(ARGS)

.PHONY: faults
faults: redis ### Hurt the locks of other libraries as ours, with ARGS, and print what came of it: three minutes
	cd bench && $(GO) run ./faults $(ARGS)

.PHONY: microbench
microbench: COUNT ?= 1
microbench: redis ### Run the Go benchmarks that match BENCH, COUNT times
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count=$(COUNT) -timeout 60m $$($(GO) list work)

.PHONY: fuzz
fuzz: redis ### Run every fuzz target for FUZZTIME
	GO='$(GO)' FUZZTIME='$(FUZZTIME)' ./scripts/fuzz.sh

.PHONY: chaos
chaos: SEED ?= 0
chaos: DURATION ?= 3m
chaos: redis ### Hurt locks for DURATION on TOPOLOGY (all if empty), drawn from SEED, then on broken libraries
	$(GO) test -race -count=1 -timeout 120m -v ./guard/internal/chaos -seed '$(SEED)' -duration '$(DURATION)' -topology '$(TOPOLOGY)'
	$(GO) run ./internal/mutants -chaos

.PHONY: release
release: ### Say what releasing VERSION would do, and check that it can be
	GO='$(GO)' ./scripts/release.sh '$(VERSION)'

.PHONY: dist
dist: ### Make the files of the release VERSION: the command with completion and manual pages, a bill of materials, checksums
	GO='$(GO)' ./scripts/dist.sh '$(VERSION)'

.PHONY: several
several: FOR ?= 1m
several: redis ### Take several keys at once by several Guards, FOR a while, on one Redis and on a quorum
	REDLATCH_SEVERAL_FOR='$(FOR)' $(GO) test -race -count=1 -timeout 60m -v -run '^TestSeveral' ./guard

.PHONY: mutants
mutants: redis postgres mariadb ### Change the code of the packages that match ARGS, and print what no test notices
	$(GO) run ./internal/mutants $(ARGS)

.PHONY: example
example: ### Run the demo with ARGS
	$(GO) run ./examples/demo $(ARGS)

.PHONY: ci
ci: ## Run what CI runs
	./.ci/run
