# These commands do everything on a fresh Debian or Ubuntu with Rust and make:
#   make run    install what is missing, build, start both programs on this machine
#   make demo   the same over a simulated node with a week of faults behind it
#   make test   install what is missing, then format, lints and every test
.PHONY: run demo test test-a-to-f test-g-to-z test-long bench packages test-packages lint build clean help
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Start the exporter and the analyzer on this machine, GPU or not
	@deploy/local/run

demo: ## A simulated eight-GPU node with a week of faults, its report, then live
	@deploy/local/demo $(ARGS)

build: ## Build both release binaries into target/release
	@deploy/local/packages build
	cargo build --release --locked --bin goodput-exporter --bin goodput-analyzer

test: ## Format, lints, every test (needs root for the tests with real cgroups)
	@deploy/local/packages test
	cargo fmt --all --check
	@deploy/local/lint
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked --no-run
	$(MAKE) --jobs=2 --keep-going test-a-to-f test-g-to-z

# Two lanes side by side: the long tests wait more than they compute. Between them they have every test's name.
test-a-to-f:
	cargo test --workspace --locked --no-fail-fast --lib --bins --test '[a-f]*'

test-g-to-z:
	cargo test --workspace --locked --no-fail-fast --test '[g-z]*'
	cargo test --workspace --locked --doc

test-long: ## The long form of a part of the tests: make test-long PART=store
	@deploy/local/test-long $(PART)

bench: ## The exporter's cost beside that of its peers, ratios printed (about 20 minutes)
	@deploy/local/bench $(ARGS)

packages: ## tar, deb, rpm and image of each program, and the chart, in target/dist
	@deploy/local/packages package
	@deploy/package

test-packages: ## What `make packages` made: services in a guest, the image in runc, RPMs, Debian 11 (needs root)
	@deploy/local/packages test-packages
	@deploy/local/test-packages

lint: ## Licences, sources and advisories of the dependencies; those that nothing uses
	@deploy/local/packages lint
	@deploy/local/lint

clean: ## Remove everything that was built
	cargo clean
