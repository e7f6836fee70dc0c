# Everything from a fresh checkout. `make demo` tells the story, `make test` is the check before a
# change lands, `make test-live` what only real kernels, servers and time can show (CONTRIBUTING.md).
# What a fresh Debian lacks beyond git, make, Rust, Python and Node comes from here, pinned.

SHELL := /bin/bash
PYTHONS ?= 3.11 3.13
export PYTHONS

.PHONY: help setup wheels demo test test-live test-fleet test-peers captures accept viewer zoo sim bench bench-services lint install-c clean

help:
	@echo "make demo       the story of Billy: a spike, a capture, the cause (under 4 minutes)"
	@echo "make test       the check before a change lands: deterministic, minutes; PARTS=\"rust python\" runs some"
	@echo "make test-live  real kernels, servers, interpreters, time (hours); PARTS=\"zoo wakers\", RESUME=1"
	@echo "make test-fleet the fleet's questions on a Spark cluster, shipping to an object store (installs 1.2 GB)"
	@echo "make test-peers other projects' own tests, bare and recorded (hours); PEERS=\"flask starlette\" PYTHON=3.11 ROUNDS=2"
	@echo "make viewer     builds the page that 'dashcam view' writes, from viewer/ (needs Node)"
	@echo "make zoo        every sick program and its twin, switches on and off; SEED=1 COUNT=70: and generated ones (hours)"
	@echo "make sim        simulated services judge the diagnosis; SEED=1 COUNT=1000 (2 minutes)"
	@echo "make captures   records golden captures again (root); CASE=GLOB PYTHONS=3.11"
	@echo "make accept     verdicts of golden captures that a change moves, old and new; CASE=GLOB YES=1"
	@echo "make bench      costs, beside rivals, in one run"
	@echo "make bench-services   Flask and FastAPI with and without dashcam, on a quiet machine (8 minutes)"
	@echo "make lint       form, rooms, docs, clippy, ruff, shellcheck"
	@echo "make install-c PREFIX=/usr/local    libdashcam, dashcam.h, dashcam.pc"
	@echo "make setup      environments in .venv with dashcam built and installed"
	@echo "make wheels     dist/*.whl to install elsewhere, one for each CPython here; PYTHONS=\"3.11 3.13\""

setup:
	tools/setup

wheels:
	PYTHONS="$(if $(filter-out file,$(origin PYTHONS)),$(PYTHONS))" tools/wheels

demo:
	tools/demo_setup
	python3 tools/demo

# Ends with two lines of totals: tests, then parts.
test:
	tools/test $(PARTS)

# State is kept in build/test-live: RESUME=1 leaves out what passed on this commit.
test-live:
	tools/test_live $(if $(RESUME),--resume) $(PARTS)

test-fleet:
	tools/test_fleet

PYTHON ?= 3.11
PEERS ?=
ROUNDS ?= 2
# Which tests of Flask, gevent, CPython and others recording changes; docs/internals/peers.md.
test-peers:
	PYTHONS=$(PYTHON) tools/setup
	python3 tests/peers/run.py --python $(PYTHON) --rounds $(ROUNDS) $(PEERS)

# The built pages are committed: dist/page.html, and the fleet's in python/dashcam/_fleet.
viewer:
	cd viewer && npm ci --ignore-scripts && npm run check && npm run build

SEED ?= 1
COUNT ?= 70
# By hand, then generated ones; as the one who asks and, for root, as a user without rights.
zoo: setup
	tools/zoo $(SEED) $(COUNT)

# Prints for both kernel modes how often cause, place and culprit are right, and the first failing seed, made small.
sim:
	cargo run --release --quiet -p dashcam-sim -- run --seed $(SEED) --count $(if $(filter file,$(origin COUNT)),1000,$(COUNT)) --shrink

# docs/internals/golden-captures.md
CASE ?= *
captures:
	tests/captures/prepare
	set -e; for version in $${PYTHONS}; do tests/captures/neutral /srv/venv/3.11/bin/python \
	    /srv/zoo/tests/captures/record.py --case '$(CASE)' --python $$version; done

accept:
	cargo run --quiet -p dashcam-golden -- accept '$(CASE)' $(if $(YES),--yes)

bench: setup
	tools/bench

bench-services: setup
	tools/bench_services --own

install-c:
	tools/install_c "$(PREFIX)"

lint:
	tools/lint

clean:
	rm -rf target build dist .venv python/dashcam.data python/dashcam/*.so
