# `make` alone lists the targets.
CARGO ?= cargo
NPROC := $(shell nproc 2>/dev/null || echo 2)
DUOLOG := target/debug/duolog
CRASH := target/debug/duolog-crash
BLACKBOX := target/debug/duolog-blackbox
POSTGRES := target/debug/duolog-postgres
FIXTURES ?= ../shared/fixtures

.DEFAULT_GOAL := help
.PHONY: help demo test check crash bench bench-peers compat gen tools build

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## an agent is killed in mid-write, and nothing acknowledged is lost
	$(CARGO) build --quiet -p duolog-cli --bin duolog
	@$(DUOLOG) demo

test: tools check build ## every test: format, lints, unit, crash (short form), bench (smoke), documents
	$(POSTGRES) run -- $(CARGO) nextest run --workspace
	$(CARGO) test --doc -p duolog --quiet
	bash docs/examples/check.sh $(DUOLOG)

check: ## format and lints
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

crash: build ## the crash harness in full: every point, 500 kills, every mutant; an hour of random commands
	$(CRASH) enumerate
	$(CRASH) faults
	$(CRASH) kill 500
	$(CRASH) mutants
	$(CRASH) replay --scripts 20
	$(CRASH) replay --scripts 21 --points 400 --faults all
	$(CRASH) pauses
	$(CRASH) kills
	$(CRASH) transactions
	$(POSTGRES) run -- $(CRASH) pauses --cases 400 --store env
	$(POSTGRES) run -- $(CRASH) kills --store env
	$(POSTGRES) run -- $(CRASH) transactions --store env
	$(POSTGRES) run -- $(CRASH) stress --rounds 40
	$(BLACKBOX) --minutes 20
	$(BLACKBOX) race --minutes 10
	$(BLACKBOX) queue --minutes 3
	$(BLACKBOX) pages --minutes 2
	$(POSTGRES) run -- $(BLACKBOX) --minutes 15 --store env
	$(POSTGRES) run -- $(BLACKBOX) race --minutes 5 --store env
	$(POSTGRES) run -- $(BLACKBOX) queue --minutes 3 --store env
	$(POSTGRES) run -- $(BLACKBOX) pages --minutes 2 --store env

bench: tools ## every figure, three runs each; writes the figures of docs/performance.md
	$(CARGO) build --quiet -p duolog-testkit --bin duolog-postgres
	$(CARGO) build --release -p duolog-cli -p duolog-bench
	$(POSTGRES) run -- target/release/duolog-bench --json target/bench.json --docs docs/performance.md

bench-peers: ## beside peers from PyPI; writes their figures in docs/performance.md
	$(CARGO) build --release -p duolog-cli -p duolog-bench
	bash bench/peers/run.sh
	target/release/duolog-bench --from target/peers.json --docs docs/performance.md

compat: build ## real files of other systems, where FIXTURES has them; usage beside ccusage from npm
	bash .ci/compat $(FIXTURES)
	bash .ci/ccusage

gen: build ## write the generated documents anew
	$(DUOLOG) docs > docs/cli.md
	$(DUOLOG) docs --schemas docs/schemas

# One graph of features for tests and smoke benches: what is built here is what is tested.
build:
	$(CARGO) build --workspace --bins --quiet

tools:
	@$(CARGO) nextest --version >/dev/null 2>&1 || $(CARGO) install cargo-nextest --locked
	@bash .ci/tools
