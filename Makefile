# These commands do everything on a fresh Debian or Ubuntu with Rust and make:
#   make run    install what is missing, build, start both programs on this machine
#   make demo   the same over a simulated node with a week of faults behind it
#   make test   install what is missing, then format, lints and every test
.PHONY: run demo test test-long bench lint build clean help
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Start the exporter and the analyzer on this machine, GPU or not
	@deploy/local/run

demo: ## A simulated eight-GPU node with a week of faults, its report, then live
	@deploy/local/demo $(ARGS)

build: ## Build both release binaries into target/release
	@deploy/local/packages build
	cargo build --release --locked -p goodput-exporter
	cargo build --release --locked -p goodput-analyzer

test: ## Format, lints, every test (needs root for the tests with real cgroups)
	@deploy/local/packages test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked

test-long: ## The long form of a part of the tests: make test-long PART=store
	@deploy/local/test-long $(PART)

bench: ## The exporter's cost beside that of its peers, ratios printed (about 20 minutes)
	@deploy/local/bench $(ARGS)

lint: ## Licences, advisories and sources of the dependencies (needs cargo-deny)
	cargo deny check licenses bans sources

clean: ## Remove everything that was built
	cargo clean
