# Landfall's commands. `make demo` and `make test` are the two a newcomer needs; both install what they need first.
#
#   make demo [HOSTS=3] [BASE_ISO=live.iso] [IMAGE=metal.raw.xz]   install virtual machines end to end and show them
#   make binary     the static programs alone: landfall and landfall-host in target/x86_64-unknown-linux-musl/release
#   make size       bytes of both by crate, the difference to the last commit, and whether they fit their budgets
#   make test       what each change must pass: unit, loop devices and namespaces (root), documents, an API server, four machines
#   make test-machines   every other virtual machine
#   make test-peers      against coreos-installer, rdcore, published clients; packages; an API server at length
#   make test-long       killing, loading and fuzzing for minutes, other dates, another processor
#   make test-all        all of these, and a line for each suite
#   make test-noise [RUNS=20]   what `make test` runs, again and again beside a load
#   make schemathesis   requests made from the service's own description, against it
#   make peers-check LANDFALL_PEERS=DIR   with the real service, agent, installer and controller of that folder as judges (root)
#   make lint       formatting, clippy, circles of files, rustdoc; the dependencies too, where cargo-deny is installed
#   make deny       licences, sources and known vulnerabilities of the dependencies (installs cargo-deny if it is missing)
#   make fuzz [FUZZ_SECONDS=60]   each fuzz target for that long
#   make crash [MOMENTS=50]   signals and power cuts in installations: at every boundary of stages, and at so many random moments
#   make bench      against the peer programs, as ratios
#   make dist       what is released: programs, archive, packages, container images, bills of materials, checksums
#   make reproducible   the same a second time in another place, compared
#   make kubernetes a real API server of Kubernetes and its store in target/kubernetes/bin, which tests start
#   make setup-aarch64  a cross compiler, emulators and packages for the processor aarch64, which the others do without
#   make binary-aarch64 the static program for it: target/aarch64-unknown-linux-musl/release/landfall
#   make test-aarch64   unit tests under emulation, and a machine of that processor from its live ISO to an installed node
#   make setup      what the others call: packages, QEMU, the musl target

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: all setup setup-demo setup-aarch64 binary-aarch64 test-aarch64 peers bench-peers kubernetes binary size demo test test-programs \
	test-machines test-peers test-long test-all test-noise peers-check fuzz crash lint deny schemathesis bench dist reproducible clean

CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TARGET_DIR
TARGET := x86_64-unknown-linux-musl
PROGRAMS := $(CARGO_TARGET_DIR)/$(TARGET)/release
BINARY := $(PROGRAMS)/landfall
# Bytes: 20 MiB for all of it, 10 MiB for what goes into a live image.
BUDGET := 20971520
HOST_BUDGET := 10485760
HOSTS ?= 3
FUZZ_SECONDS ?= 60
MOMENTS ?= 50

all: binary

setup:
	@.ci/setup

# What `make demo` and `make binary` need, without what only tests start.
setup-demo:
	@.ci/setup demo

# The program whose command lines and ISO areas we must agree with, as its authors release it, and for tests as it is built sooner.
# Debug information and the part that nothing times, network files, cost most of its build.
PEERS := $(CARGO_TARGET_DIR)/peers
BENCH_PEERS := $(CARGO_TARGET_DIR)/bench-peers
define coreos-installer
@[ -x $(1)/bin/$(3) ] || { echo "peers: building coreos-installer 0.27.0"; \
	CARGO_PROFILE_RELEASE_DEBUG=false CARGO_TARGET_DIR=$(1)/build cargo install --quiet --locked --root $(1) \
	--config profile.release.package.nmstate.opt-level=0 $(2) coreos-installer@0.27.0 && rm -rf $(1)/build; }
endef
peers: setup
	$(call coreos-installer,$(PEERS),--features rdcore --config profile.release.opt-level=1,rdcore)

bench-peers: setup
	$(call coreos-installer,$(BENCH_PEERS),,coreos-installer)

# What a controller of ours is tested with: no package has the API server.
kubernetes: setup
	@.ci/kubernetes $(CARGO_TARGET_DIR)/kubernetes

binary: setup-demo
	.ci/release $(TARGET)

# WRITE_SIZES=1 for the table of the next commit.
size: binary
	cargo run --quiet --package size -- .ci/size/sizes.tsv \
		$(PROGRAMS)/landfall-host=$(PROGRAMS)/landfall-host.map:$(HOST_BUDGET) $(BINARY)=$(BINARY).map:$(BUDGET)

# A released program takes longer to build, and shows nothing more here. Both at once: by itself, the demo would have fifty crates built
# again, with other features.
QUICK := $(CARGO_TARGET_DIR)/$(TARGET)/quick
demo: setup-demo
	@echo "demo: building with the profile quick: larger and slower than what is released (make binary)"
	PROFILE=quick .ci/release $(TARGET) landfall --package qemu-tests --bin landfall --bin demo
	LANDFALL_BIN=$(QUICK)/landfall $(QUICK)/demo --hosts $(HOSTS) $(if $(BASE_ISO),--base-iso '$(BASE_ISO)') $(if $(IMAGE),--image '$(IMAGE)')

# The tests, and what packages are made with. Of the workspace: a package alone would be built with other features.
test-programs: setup
	cargo nextest run --workspace --no-run
	cargo build --quiet --workspace --bin sbom --example pages

# A change is tested with a program that is built sooner than a released one; the longer tiers have that.
test: setup
	.ci/build-tests
	LANDFALL_BIN=$(QUICK)/landfall .ci/test default $(if $(ONLY),'$(ONLY)')

test-machines: binary kubernetes test-programs
	LANDFALL_BIN=$(BINARY) .ci/test machines

test-peers: export PATH := $(PEERS)/bin:$(PATH)
test-peers: binary peers kubernetes test-programs
	LANDFALL_BIN=$(BINARY) .ci/test peers

test-long: binary kubernetes test-programs
	LANDFALL_BIN=$(BINARY) .ci/test-long

test-all:
	@.ci/test-all

# All processors busy, a disk that is written to, little memory; one processor alone in every other run.
RUNS ?= 20
test-noise: setup
	.ci/build-tests
	LANDFALL_BIN=$(QUICK)/landfall .ci/test-noise $(RUNS)

# They wait for one another more than they compute, so all run at once; what the report says of each comes once more at the end.
peers-check: setup kubernetes
	@[ -d "$(LANDFALL_PEERS)" ] || { echo "peers-check: LANDFALL_PEERS=DIR must name the folder with the real programs" >&2; exit 2; }
	rm -f $(CARGO_TARGET_DIR)/tmp/peers.tsv
	cargo build -p installer-double
	status=0; LANDFALL_PEERS='$(LANDFALL_PEERS)' LANDFALL_TEST_THREADS=32 .ci/test real || status=$$?; \
		sort $(CARGO_TARGET_DIR)/tmp/peers.tsv; exit $$status

fuzz: setup
	.ci/fuzz $(FUZZ_SECONDS)

crash: binary test-programs
	LANDFALL_BIN=$(BINARY) LANDFALL_CRASH_MOMENTS=$(MOMENTS) .ci/test long 'test(/^crash::/)'

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo run --quiet --package circles
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	@.ci/deny

deny:
	@command -v cargo-deny >/dev/null || cargo install --quiet --locked cargo-deny
	@.ci/deny

# The program of that name comes from PyPI, into a directory of its own.
schemathesis:
	cargo build --quiet --package landfall
	.ci/schemathesis

bench: export PATH := $(BENCH_PEERS)/bin:$(PATH)
bench: binary bench-peers
	.ci/release $(TARGET) diskwrite --example floor
	LANDFALL_BIN=$(BINARY) FLOOR_BIN=$(CARGO_TARGET_DIR)/$(TARGET)/release/examples/floor BENCH_IMAGES=$(CARGO_TARGET_DIR)/bench-images .ci/bench

dist: setup
	@.ci/dist

# DIST_PROFILE=quick for a build that takes less time.
reproducible: setup
	@.ci/reproducible

setup-aarch64: setup
	@.ci/setup-aarch64 --machines

binary-aarch64:
	@.ci/setup-aarch64
	.ci/release aarch64-unknown-linux-musl

# With LANDFALL_BIN_AARCH64 for a program that is there already; without it one is built that takes less time.
test-aarch64: setup-aarch64
	.ci/test-aarch64

clean:
	rm -rf $(CARGO_TARGET_DIR)
