# Feedline: `make test` runs everything that CI runs, in the same order. Longer commands are in scripts/.

CARGO ?= cargo
BENCH ?= broadcast
SECONDS ?= 600

.DELETE_ON_ERROR:
.PHONY: test lint unit page types sdk sdk-java generated-clients client browser browser-short deps bench soak chaos
.PHONY: former fuzz fuzz-build build dist recording

# Everything; the last line is the summary.
test: deps lint
	scripts/run-tests

# Format, clippy, documentation: warnings are errors. No cycles between files, nor between folders.
lint:
	$(CARGO) fmt --all --check
	if command -v python3 >/dev/null; then scripts/check-cycles && scripts/check-cycles --folders; fi
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

# Tests with a limit of seconds, or that count what a server does meanwhile. They run one at a time.
ALONE := behind_nginx:: invalidation::on_ rolling_restarts_delay_no_post a_lock_is_in_force round_trips_do_not_depend \
  a_suspended_author_leaves_all_pages bursts_do_not_delay backlogs_of_one_author

# Unit, property and black-box tests in Rust. Most of their time they wait for servers, so more of them run at a time
# than there are cores.
unit: export RUST_TEST_THREADS ?= 6
unit: build
	@failed=0; \
	$(CARGO) test --workspace --no-fail-fast -- $(ALONE:%=--skip %) || failed=1; \
	RUST_TEST_THREADS=1 $(CARGO) test --workspace --no-fail-fast --test gateway --test resilience -- $(ALONE) \
	  || failed=1; \
	exit $$failed

# The modules of the page, without a browser.
page: tests/node_modules/.package-lock.json
	npm run --silent --prefix tests page

# The types of the client module.
types: tests/node_modules/.package-lock.json
	npm run --silent --prefix tests types

# The client module against the server. FEEDLINE_BLESS=1 also writes the types of the API.
client: build tests/node_modules/.package-lock.json
	npm run --silent --prefix tests client

# The official JavaScript SDK against the server.
sdk: build tests/node_modules/.package-lock.json
	npm run --silent --prefix tests sdk

# The official Java SDK against the server. It needs Maven and a JDK of version 17, so `make test` leaves it out.
sdk-java: build
	mvn --batch-mode --no-transfer-progress --file tests/sdk-java/pom.xml test

# Clients in Python and Java, generated from the OpenAPI document. Not a part of `make test`: it needs Maven, a JDK and
# the registries of their packages.
generated-clients: build
	scripts/generated-clients

# The page in Chromium against the server, on both brokers, with 2,000 arrivals.
browser: build tests/node_modules/.package-lock.json
	FEEDLINE_ARRIVALS=2000 npm run --silent --prefix tests browser
	FEEDLINE_ARRIVALS=2000 FEEDLINE_BROKER=redis npm run --silent --prefix tests browser

# The same on the memory broker alone, with 500 arrivals, as a part of `make test`.
browser-short: build tests/node_modules/.package-lock.json
	npm run --silent --prefix tests browser

# docs/pictures/line.webp, from the demonstration.
recording: build tests/node_modules/.package-lock.json
	node tests/browser/record.mjs

# Installs the tools that the tests need, and prints their names.
deps: tests/node_modules/.package-lock.json
	scripts/install-deps

tests/node_modules/.package-lock.json: tests/package.json tests/package-lock.json tests/.npmrc
	scripts/install-deps node
	npm ci --prefix tests
	@touch $@

# The tests with target/debug/feedline, which all kinds of tests start. `cargo build` would compile most dependencies
# once more, with fewer features.
build:
	$(CARGO) test --workspace --no-run

# The executable to install, target/dist/feedline, and its line tables beside it, in feedline.debug. The
# stripped file is a new one: Cargo keeps a hard link to the linked one, and reuses that.
dist:
	CARGO_PROFILE_DIST_STRIP=none $(CARGO) build --profile dist
	cd target/dist && objcopy --only-keep-debug --compress-debug-sections=zlib feedline feedline.debug
	cd target/dist && objcopy --strip-debug --add-gnu-debuglink=feedline.debug feedline feedline.new
	cd target/dist && mv feedline.new feedline

# For example: make bench BENCH="feed --broker redis"
bench:
	$(CARGO) build --release --package feedline --package feedline-bench
	$(CARGO) run --release --package feedline-bench -- $(BENCH)

# The oracle for SECONDS, on all stores or on those that match ON: make soak SECONDS=3600 ON=postgres. FEEDLINE_SEED
# sets the first seed. A failure prints the command that repeats it.
soak:
	FEEDLINE_SOAK=$(SECONDS) $(CARGO) test --workspace --test oracle $(ON) -- --nocapture

# The long forms of the resilience suite: more rounds, and pauses past every lease.
chaos:
	FEEDLINE_CHAOS=1 $(CARGO) test --workspace --test resilience

# A node of a former build, the program FORMER, beside one of this build: before a release, with the one before it.
former:
	FEEDLINE_FORMER=$(abspath $(FORMER)) $(CARGO) test --workspace --test resilience -- --ignored former_build::

# Each fuzz target with coverage, for RUNS inputs (10,000,000).
fuzz:
	scripts/fuzz $(RUNS)

fuzz-build:
	$(CARGO) build --package feedline-fuzz --features targets
