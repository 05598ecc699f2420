# `make` without a target lists the targets.
CARGO ?= cargo
NPROC := $(shell nproc 2>/dev/null || echo 2)
DUOLOG := target/debug/duolog
RELEASE := target/release/duolog
CRASH := target/debug/duolog-crash
BLACKBOX := target/debug/duolog-blackbox
POSTGRES := target/debug/duolog-postgres
FIXTURES ?= ../shared/fixtures
PREFIX ?= $(HOME)/.local

.DEFAULT_GOAL := help
.PHONY: help demo install dist test check crash bench bench-peers compat gen release tools build

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Kill an agent in the middle of a write and check that nothing is lost
	$(CARGO) build --quiet -p duolog-cli --bin duolog
	@$(DUOLOG) demo

install: release ## Install duolog, its manual pages and completions under PREFIX [default: ~/.local]
	install -D -m 755 $(RELEASE) $(DESTDIR)$(PREFIX)/bin/duolog
	$(RELEASE) --quiet man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(RELEASE) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/duolog
	install -d $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	$(RELEASE) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_duolog
	install -d $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(RELEASE) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/duolog.fish

dist: release ## Build target/dist/duolog-VERSION-HOST.tar.gz and SHA256SUMS
	bash .ci/dist $(RELEASE)

test: tools check build ## Run all tests: format, lints, unit, crash (short), bench (smoke), documents
	$(POSTGRES) run -- $(CARGO) nextest run --workspace
	$(CARGO) test --doc -p duolog --quiet
	bash docs/examples/check.sh $(DUOLOG)

check: ## Check format and lints
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

crash: build ## Run the full crash harness: every crash point, 500 kills, every mutant, an hour of random commands
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

bench: tools ## Run all benchmarks, three runs each; write the results to docs/performance.md
	$(CARGO) build --quiet -p duolog-testkit --bin duolog-postgres
	$(CARGO) build --release -p duolog-cli -p duolog-bench
	$(POSTGRES) run -- target/release/duolog-bench --json target/bench.json --docs docs/performance.md

bench-peers: ## Compare with packages from PyPI; write the results to docs/performance.md
	$(CARGO) build --release -p duolog-cli -p duolog-bench
	bash bench/peers/run.sh
	target/release/duolog-bench --from target/peers.json --docs docs/performance.md

compat: build ## Read real files of other programs from FIXTURES, and compare usage with ccusage from npm
	bash .ci/compat $(FIXTURES)
	bash .ci/ccusage

gen: build ## Generate docs/cli.md and docs/schemas
	$(DUOLOG) docs > docs/cli.md
	$(DUOLOG) docs --schemas docs/schemas

release:
	$(CARGO) build --release --locked -p duolog-cli --bin duolog

# Tests and smoke benchmarks run these binaries, built with the same features.
build:
	$(CARGO) build --workspace --bins --quiet

tools:
	@$(CARGO) nextest --version >/dev/null 2>&1 || $(CARGO) install cargo-nextest --locked
	@bash .ci/tools
