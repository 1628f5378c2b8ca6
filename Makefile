# One word for each thing a person does with weir. Needs a Rust toolchain; everything else is installed on the way.

CARGO ?= cargo
# Exactly the versions of Cargo.lock.
LOCKED := --locked
# On a terminal cargo shows how far it is, which may take many minutes. In a log that would be hundreds of lines.
QUIET := $(shell [ -t 2 ] || echo --quiet)
# Without live ports; and without the API, its clients and controllers as well.
PORTLESS := --no-default-features --features weir/control
OFFLINE := --no-default-features

# Tests that the build without live ports changes: commands, and what they promise. The library's own tests are the same, less those
# of what is left out, and so are those of commands that take no ports.
PORTLESS_TESTS := --test cli --test specification
PORTLESS_SAME := archive:: captures:: chamelemon:: csv:: demo:: pint:: registers:: replay:: sim:: trace::
# It is compiled quicker when it is not optimised, and its tests need not be quick.
PORTLESS_PROFILE := --config profile.dev.package.weir.opt-level=0

# Tests write down here what this kernel lacks for them.
export WEIR_NOT_RUN := $(CURDIR)/target/not-run

# Most tests between network namespaces wait, so that more of them run at a time than there are cores.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))

# Of fuzzing, for each target.
SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help demo build test test-netns test-portless test-nic mutants bench figures figures-network figures-disketch p4 p4-tofino p4-demo fuzz lint doc setup clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup-demo ## two switches with a lossy link between them, and what weir measured of it; needs no root
	@[ -x target/demo/weir ] || printf '%s\n' \
		"Building the demo: two or three minutes of two cores the first time, then seconds." \
		"The last crate, weir itself, is half of that. This build is quick to compile;" \
		"make build and packages are optimised further, and have all commands." >&2
	@$(CARGO) build $(LOCKED) --profile demo $(OFFLINE) --bin weir
	@target/demo/weir demo
	@echo "Here weir is target/demo/weir."

build: setup-build ## the release binaries, target/release/weir and pktgen
	@[ -x target/release/weir ] || echo "Building weir: some minutes the first time." >&2
	@$(CARGO) build $(LOCKED) --release --package weir --package pktgen --bins

# The documentation's examples come last, so that what stands above them is near the end and cargo has the last word.
test: setup-packages format ## everything: lints, documentation, unit tests, network namespaces
# Downloaded while the first tests are compiled.
	@scripts/setup.sh --others >/dev/null 2>&1 &
	@echo "== Tests" >&2
	@rm -f $(WEIR_NOT_RUN)
# The examples as well, one of which a test runs: by itself it would compile weir once more, with the features of one crate.
	@$(CARGO) test $(LOCKED) $(QUIET) --workspace --no-run
	@scripts/setup.sh --others
	@$(MAKE) --no-print-directory tests-and-lints
	@if [ -s $(WEIR_NOT_RUN) ]; then sort -u $(WEIR_NOT_RUN) | sed 's/^/not run: /'; fi >&2
	$(CARGO) test $(LOCKED) --workspace --doc

# Many tests wait, and leave time of the cores: lints and documentation take that and no other. Cargo does one thing at a time in a
# directory, but for running tests: lints begin when it has seen that all tests are compiled.
.PHONY: tests-and-lints
tests-and-lints:
	@mkdir -p target
	@(sleep 10; exec chrt --idle 0 $(MAKE) --no-print-directory lint doc) >target/lint.log 2>&1 & lints=$$!; \
	trap 'kill $$lints 2>/dev/null' INT TERM; \
	echo "WEIR_EXAMPLES=built $(CARGO) test $(LOCKED) --workspace --lib --bins --tests" >&2; \
	WEIR_EXAMPLES=built $(CARGO) test $(LOCKED) --workspace --lib --bins --tests; tests=$$?; \
	[ $$tests -eq 0 ] || { kill $$lints 2>/dev/null; exit $$tests; }; \
	wait $$lints; lints=$$?; cat target/lint.log >&2; exit $$lints

# Of the whole workspace, so that crates have the features that they have in `make test`, and are compiled once.
test-portless: setup-demo ## commands, and what they promise, without live ports; `make lint` only compiles that
	$(CARGO) test $(LOCKED) $(QUIET) --workspace $(PORTLESS) $(PORTLESS_PROFILE) $(PORTLESS_TESTS) -- $(addprefix --skip ,$(PORTLESS_SAME))

test-netns: setup ## only the tests between network namespaces
	$(CARGO) build $(LOCKED) --package pktgen
	$(CARGO) test $(LOCKED) --test netns

test-nic: setup setup-nic ## weir on network cards, of an emulated machine; some minutes, and not part of `make test`
	@tests/nic/image.sh
	WEIR_REQUIRE_NETNS=1 $(CARGO) test $(LOCKED) --test nic -- --ignored --test-threads 1

mutants: setup ## change the code in thousands of places and list what no test notices; hours, or ONLY="forward/acl 4.2" for some
	@command -v cargo-mutants >/dev/null || $(CARGO) install cargo-mutants --locked
	@$(CARGO) run $(LOCKED) $(QUIET) --package bench $(OFFLINE) -- mutants $(ONLY)

# SUITE="--quick", "--only programs", … for a part of it; `bench suite --help` has them all.
bench: setup-bench ## throughput, latency, memory and start-up beside testpmd, OVS and others, in turns; a quarter of an hour, and a record in bench/record
	@echo "Building (release) …" >&2
	@$(CARGO) build $(LOCKED) --release $(QUIET) --package bench --package weir --bins
	target/release/bench suite $(SUITE)

figures: ## the figures of the papers, CSV and SVG, in out/figures; a Rust toolchain is enough
	@echo "Building (release) …" >&2
	@for paper in hashpipe chamelemon-losses chamelemon-tasks pint-path pint-reference pint-latency pint-loops pint-hpcc pint-together pint-hashes; do \
		$(CARGO) run $(LOCKED) --release $(QUIET) --package bench $(OFFLINE) -- figures $$paper --out out/figures || exit 1; \
	done

figures-disketch: ## DiSketch's figures, in out/figures too; two hours or more on two cores
	@echo "Building (release) …" >&2
	@for figure in frequency entropy heterogeneity path-length path-change; do \
		$(CARGO) run $(LOCKED) --release $(QUIET) --package bench $(OFFLINE) -- figures disketch-$$figure --out out/figures || exit 1; \
	done

p4: ## the P4 sources in BMv2 beside weir, registers and frames byte for byte; needs p4c-bm2-ss and simple_switch
	@echo "Building (release) …" >&2
	@$(CARGO) build $(LOCKED) --release $(QUIET) $(OFFLINE) --package weir --package bench --bins
	@p4/check.py

p4-tofino: ## the P4 sources through the Tofino compiler and assembler; needs p4c-barefoot, bfas and P4C_INCLUDE
	@p4/placement.py

p4-demo: build ## two weirs with a BMv2 switch between them and one controller; as root, needs what make p4 needs and BMv2's Python modules
	@[ -x target/p4/bin/python ] || { python3 -m venv --system-site-packages target/p4 && \
		target/p4/bin/pip install --quiet grpcio-tools thrift; }
	@target/p4/bin/python p4/demo.py

figures-network: ## ChameleMon's figures of a simulated network, in out/figures too; an hour or more on two cores
	@echo "Building (release) …" >&2
	@$(CARGO) run $(LOCKED) --release $(QUIET) --package bench $(OFFLINE) -- figures chamelemon-network --out out/figures

fuzz: ## every fuzz target, SECONDS=60 each; ends with the first finding
	@for target in fuzz/targets/*.rs; do \
		echo "== $$(basename $$target .rs)" >&2; \
		scripts/fuzz.sh $$(basename $$target .rs) $(SECONDS) || exit 1; \
	done

# fuzz/ is a workspace of its own, which nothing else here builds: its lock file would go stale unseen.
# A minimal toolchain has neither rustfmt nor clippy, and rustup may be missing, which makes setup add them. That is no
# reason not to run the tests, but where all tests are required.
lint: setup-build format deny ## formatting, dependencies, and clippy with and without live ports
	@echo "== Lints" >&2
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
		$(CARGO) clippy $(LOCKED) $(QUIET) --workspace --all-targets --features bench/micro -- -D warnings && \
		$(CARGO) clippy $(LOCKED) $(QUIET) --workspace --lib --bins $(PORTLESS_TESTS) $(PORTLESS) -- -D warnings && \
		$(CARGO) clippy $(LOCKED) $(QUIET) --workspace --lib --bins $(OFFLINE) -- -D warnings; \
	else echo "skipped: no clippy; rustup component add clippy" >&2; [ -z "$$WEIR_REQUIRE_NETNS" ]; fi

# Some seconds: the programs in target/tools are compiled already. One that is installed will do as well.
deny: export PATH := $(CURDIR)/target/tools/bin:$(PATH)
advisories: export PATH := $(CURDIR)/target/tools/bin:$(PATH)
deny: ## licences, sources and duplicates of all dependencies (deny.toml)
	@echo "== Dependencies" >&2
	@scripts/setup.sh --tools lint
	@if command -v cargo-deny >/dev/null; then \
		cargo-deny $(LOCKED) --workspace check --deny unmatched-skip --deny unnecessary-skip licenses bans sources >&2 && \
		cargo-deny $(LOCKED) --manifest-path fuzz/Cargo.toml --config deny.toml check sources >&2; \
	else echo "skipped: no cargo-deny; cargo install cargo-deny" >&2; [ -z "$$WEIR_REQUIRE_NETNS" ]; fi

advisories: ## known vulnerabilities of dependencies, and yanked ones; the database is fetched from GitHub
	@scripts/setup.sh --tools lint
	@cargo-deny $(LOCKED) --workspace check advisories

.PHONY: deny advisories
.PHONY: format
format:
	@echo "== Formatting and lock files" >&2
	@if $(CARGO) fmt --version >/dev/null 2>&1; then $(CARGO) fmt --all --check; \
	else echo "skipped: no rustfmt; rustup component add rustfmt" >&2; [ -z "$$WEIR_REQUIRE_NETNS" ]; fi
	@$(CARGO) metadata $(LOCKED) --quiet --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null || \
		{ echo "fuzz/Cargo.lock is not up to date: cargo update --workspace --manifest-path fuzz/Cargo.toml" >&2; exit 1; }

doc: setup-build ## the library's documentation, without warnings
	@echo "== Documentation" >&2
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(LOCKED) $(QUIET) --package weir --lib --no-deps --document-private-items

site: export PATH := $(CURDIR)/target/tools/bin:$(PATH)
site: ## the documentation as a site, in out/site, with its links checked
	@scripts/setup.sh --tools site
	@mkdir -p target/site
	@scripts/site.py target/site
	@mdbook build target/site --dest-dir "$(CURDIR)/out/site"
# Without those to other sites, which not every machine reaches.
	@lychee --offline --no-progress --include-fragments --root-dir "$(CURDIR)/out/site" "out/site/**/*.html"
	@echo "out/site/index.html" >&2

.PHONY: site
setup: ## install the system packages that are missing, and say what for
	@scripts/setup.sh build test

.PHONY: setup-packages setup-demo setup-build setup-bench setup-nic
setup-packages:
	@scripts/setup.sh --packages build test

setup-demo:
	@scripts/setup.sh demo

setup-build:
	@scripts/setup.sh build

setup-nic:
	@scripts/setup.sh nic

setup-bench:
	@scripts/setup.sh build bench

man: build ## the manual pages, in out/man
	@target/release/weir man --dir out/man

deb: setup-build setup-package ## a Debian package, target/debian/weir_VERSION_ARCH.deb, for the system it is built on
	@echo "Building (release) …" >&2
	@$(CARGO) build $(LOCKED) --release $(QUIET) --package weir --package pktgen --bins
	@scripts/deb.sh

# PARTS="tarball wheel" builds some of it.
release: setup-demo test-portless ## what is published, in out/release: a tarball, packages, an image, a wheel, what is in them, checksums
	@scripts/release.sh out/release

# In a directory of another length, whose path would show.
release-check: setup-demo ## builds the release once more, elsewhere, and compares it with out/release byte for byte
	@[ -f out/release/SHA256SUMS ] || { echo "There is no release to compare with: make release" >&2; exit 1; }
	@rm -rf out/release-check
	@WORK=target/release-check/in/another/directory scripts/release.sh out/release-check
	@cd out/release && sha256sum --check ../release-check/SHA256SUMS

.PHONY: release release-check
.PHONY: man deb setup-package
setup-package:
	@scripts/setup.sh package

clean: ## remove everything that was built
	$(CARGO) clean
