# Everything from a fresh checkout. `make demo` tells the story, `make test` runs all tests.
# What a fresh Debian lacks beyond git, make, Rust, Python and Node comes from here, pinned.

SHELL := /bin/bash
PYTHONS ?= 3.11 3.13
export PYTHONS

.PHONY: help setup demo test test-rust test-python test-host viewer zoo statsd otlp stress bench lint install-c clean

help:
	@echo "make demo    the story of Billy: a spike, a capture, the cause (about 2 minutes)"
	@echo "make test    all tests"
	@echo "make viewer  builds the page that 'dashcam view' writes, from viewer/ (needs Node)"
	@echo "make zoo     every sick program and its twin, switches on and off; SEED=1 COUNT=70: and generated ones (hours)"
	@echo "make statsd  the StatsD sink against real servers"
	@echo "make otlp    OTLP against a real OpenTelemetry Collector"
	@echo "make test-host    CPython's own tests under dashcam run (15 minutes)"
	@echo "make stress  2,000,000 threads, 50 million counts, and the models at greater depth (10 minutes)"
	@echo "make bench   costs, beside rivals, in one run"
	@echo "make install-c PREFIX=/usr/local    libdashcam, dashcam.h, dashcam.pc"
	@echo "make setup   environments in .venv with dashcam built and installed"

setup:
	tools/setup

demo: setup
	python3 tools/demo

# Ends with one line of totals that counts every part.
test:
	tools/test

test-rust:
	cargo test --workspace --exclude dashcam-python --all-features

test-python: setup
	tools/test python

test-host:
	tools/test host

# The built page is committed: who changes viewer/src runs this and commits dist/page.html too.
viewer:
	cd viewer && npm ci --ignore-scripts && npm run check && npm run build

SEED ?= 1
COUNT ?= 70
# By hand, then generated ones; as the one who asks and, for root, as a user without rights.
zoo: setup
	tools/zoo $(SEED) $(COUNT)

statsd:
	tools/test statsd

otlp:
	tools/test otlp

# Longer than a test may take: 2,000,000 threads, the models with one more preemption.
stress:
	DASHCAM_CHURN=2000000 cargo test --release -p dashcam --test threads_come_and_go -- --nocapture
	DASHCAM_COUNTS=10000000 cargo test --release -p dashcam-metrics --test one_shard_goes_from_thread_to_thread
	LOOM_MAX_PREEMPTIONS=3 tools/loom

bench: setup
	tools/bench

install-c:
	tools/install_c "$(PREFIX)"

lint:
	tools/lint

clean:
	rm -rf target build .venv python/dashcam.data
