# Persys Compute. `make up` shows it working, `make test` proves it.

export PATH := $(HOME)/.cargo/bin:$(PATH)

SEEDS ?= 2000
AGENTS ?= 1000
STORE ?= embedded
WORKLOADS ?= $(if $(TRACES),120000,$(if $(filter etcd,$(STORE)),30000,20000))
SHARE ?= 0.1
EXAMPLES ?= 50
SIM   := cargo run --quiet --profile proof -p persys-sim --bin sim --
BENCH := cargo run --quiet --release -p persys-bench --bin

.PHONY: up down demo test nightly sim-long prepare lint unit live live-tests corpus metrics browser join vault sweep churn sim zoo \
  chaos chaos-minute \
  bench-placement bench-core bench-fleet bench-docker bench-compose bench-gateway api-fuzz \
  release package package-check agent-image-test demo-cluster demo-cluster-down demo-cluster-test

up:                    ## Docker if it is missing, persys dev, and a container that answers; LISTEN=ADDRESS for others to join
	@LISTEN=$(LISTEN) hack/up

down:                  ## undoes `make up`
	@hack/down

demo: prepare          ## a simulated cluster, narrated: nodes join, work runs, a node dies, work moves
	$(SIM) --demo

test:                  ## all that CI runs; prints the minutes each part took
	@hack/parts prepare lint unit live sim zoo

nightly: prepare       ## the longer proofs: 20,000 seeds, kills at every effect, fuzzing, Vault, other machines, benchmarks
	@hack/parts sim-long sweep churn chaos corpus api-fuzz vault join demo-cluster-test bench-placement bench-core bench-fleet

sim-long:
	$(SIM) --seeds 20000

prepare:
	@hack/prepare

lint:                  ## formatting, clippy and documentation; every warning is an error
	cargo fmt --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

unit:                  ## starts etcd and Prometheus processes of its own
	@hack/etcd-install
	@hack/prometheus-install
	cargo test --workspace --quiet

live:                  ## against a real Docker and a real libvirt, which are started if there are none
	hack/with-docker hack/with-libvirt $(MAKE) --no-print-directory live-tests

# Named tests of the whole workspace: of one package alone, its dependencies would be built again with
# fewer features, for minutes.
NAMED := cargo test --quiet --workspace --test

live-tests:
	hack/with-dig $(NAMED) dig
	$(NAMED) mounts
	$(NAMED) compose_cli
	$(NAMED) docker
	$(NAMED) compose -- --test-threads=4
	$(NAMED) vm_parts -- --test-threads=2
	$(NAMED) libvirt_live
	$(NAMED) libvirt -- --test-threads=2
	$(NAMED) agent_live
	$(NAMED) live behind_our_back -- --test-threads=1
	$(NAMED) live -- --test-threads=4 --skip behind_our_back
	$(NAMED) manuals_live
	$(NAMED) corpus handful
	@hack/etcd-install
	$(NAMED) etcd -- --test-threads=3
	$(MAKE) --no-print-directory browser
	$(MAKE) --no-print-directory package-check
	$(MAKE) --no-print-directory deploy-check

corpus:                ## every Compose file of the corpus, as it is, on Dockers of its own
	hack/with-docker $(NAMED) corpus every -- --nocapture

metrics:               ## /metrics, alerts and dashboards, with promtool and a real Prometheus
	@hack/prometheus-install
	cargo test --quiet -p persys-metrics
	cargo test --quiet -p persys-scheduler --lib metrics
	cargo test --quiet -p persys --bin persys views
	cargo test --quiet -p persys-e2e --test gateway prometheus

browser:               ## the dashboard in Chromium; pictures are kept under target/screenshots
	@hack/browser-install
	hack/with-docker $(NAMED) dashboard

api-fuzz:              ## schemathesis over the whole interface of a gateway; EXAMPLES=n for each operation
	cargo build --quiet --workspace --bin persys
	hack/api-fuzz "$${CARGO_TARGET_DIR:-target}/debug/persys" $(EXAMPLES)

join:                  ## a second machine, in a network namespace, joins with one line and runs a container
	cargo build --quiet --workspace --bin persys
	hack/with-docker hack/join-live "$${CARGO_TARGET_DIR:-target}/debug/persys"

vault:                 ## certificates from RustyVault, a real server with Vault's protocol; built once, in minutes
	@hack/vault-install >/dev/null
	PATH="$$(hack/vault-install):$$PATH" $(NAMED) vault

sweep:                 ## scheduler and agent killed at every effect, on real Docker; takes minutes
	hack/with-docker $(NAMED) sweep

churn:                 ## a hundred updates and deletions each of a container and a stack that write all the time
	PERSYS_CHURN=100 hack/with-docker $(NAMED) live churn

# Real processes under load and faults from a seed: MINUTES=n of all kinds, or KILLS=n of `kill -9` alone.
MINUTES ?= 5
CHAOS = cargo build --quiet --workspace --bin persys --bin chaos && \
  "$${CARGO_TARGET_DIR:-target}/debug/chaos" --program "$${CARGO_TARGET_DIR:-target}/debug/persys" \
  --folder "$${CARGO_TARGET_DIR:-target}/chaos" --seed $(or $(SEED),$(shell date +%s))

chaos:                 ## MINUTES=n of faults of all kinds, or KILLS=n of `kill -9`; SEED=s, STORE=embedded or etcd for one alone
	@hack/etcd-install
	hack/with-docker true
ifdef KILLS
	$(CHAOS) --kills $(KILLS) --store etcd
else ifeq ($(origin STORE),command line)
	$(CHAOS) --minutes $(MINUTES) --store $(STORE)
else
	$(CHAOS) --minutes $(MINUTES) --store embedded
	$(CHAOS) --minutes $(MINUTES) --store etcd
endif

chaos-minute:          ## the same for less than a minute, after the checker was shown to fail
	@hack/etcd-install
	hack/with-docker true
	cargo build --quiet --workspace --bin persys
	$(NAMED) planted
	$(CHAOS) --brief --seconds 25 --store etcd

sim:                   ## SEEDS=n fresh seeds, or SEED=n for one with its trace
ifdef SEED
	$(SIM) --seed $(SEED) --trace
else
	$(SIM) --seeds $(SEEDS)
endif

zoo:                   ## every known bug put back, one at a time; each must be found
	$(SIM) --zoo

bench-placement:
	@mkdir -p target/bench
	$(BENCH) placement -- --json target/bench/placement.json

bench-core:
	@mkdir -p target/bench
	$(BENCH) core_cost -- target/bench/core.json

bench-fleet:           ## AGENTS=n simulated agents over mTLS, WORKLOADS=n to running, STORE=embedded or etcd; TRACES=1: what traces cost
	@mkdir -p target/bench
	@hack/etcd-install
	cargo build --quiet --release -p persys-bench --bin fleet
ifdef TRACES
	hack/with-own-network $(BENCH) fleet -- --traces 1 --share $(SHARE) --agents $(AGENTS) --workloads $(WORKLOADS) \
	  --json target/bench/fleet-traces.json
else
	hack/with-own-network $(BENCH) fleet -- --store $(STORE) --agents $(AGENTS) --workloads $(WORKLOADS) \
	  --json target/bench/fleet-$(STORE).json
endif

bench-gateway:         ## reads through a gateway against the scheduler's own, idle streams, a cluster that stands still
	@mkdir -p target/bench
	$(BENCH) gateway -- --json target/bench/gateway.json

bench-compose:         ## a stack of five services against the Compose program itself, on a daemon of its own
	@mkdir -p target/bench
	hack/with-docker $(BENCH) compose -- target/bench/compose.json

bench-docker:          ## against Docker itself and Swarm, on a daemon of its own
	@mkdir -p target/bench
	hack/with-docker $(BENCH) docker -- target/bench/docker.json

release: prepare       ## the static program as it is shipped, in target/dist; says its size
	@hack/release

package: release       ## the Debian package of it and the image, installed and started once
	hack/package-deb target/dist/persys target/dist
	hack/package-test target/dist/persys target/dist/persys_*.deb
	hack/with-docker hack/images target/dist/persys

agent-image-test: release  ## the image of the agent, on a Debian made here unless BASE names one, runs a container and a stack
	hack/with-docker hack/agent-image-test target/dist/persys

package-check: prepare ## the package of a debug build, installed, started, upgraded and purged on a copy of this host
	cargo build --quiet --workspace --bin persys
	hack/package-test "$${CARGO_TARGET_DIR:-target}/debug/persys"

demo-cluster: prepare  ## three nodes, a scheduler and a gateway as containers; prints the dashboard's address
	@hack/docker-up
	hack/demo-cluster up

demo-cluster-down:     ## undoes `make demo-cluster`
	hack/demo-cluster down

demo-cluster-test:     ## the same on etcd, with a container on each node, every query of the dashboards asked of a Prometheus, and away again
	STORE=etcd hack/with-docker hack/demo-cluster test

# --- the targets that the documents of earlier systems name, and what they stand for here ---

.PHONY: help deps build build-linux proto dev-certs fmt docker-build docker-push deploy-check

help:                  ## what can be made
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST) | sort

deps: prepare          ## what a build needs: Rust, a C compiler, and all crates
	cargo fetch --quiet --locked

build: prepare         ## a quick build for this machine, in bin under each of its names; `make release` is what is shipped
	cargo build --quiet --workspace --bin persys
	hack/bin-links "$${CARGO_TARGET_DIR:-target}/debug/persys" bin

build-linux: prepare   ## the static program for any Linux of this architecture, in bin/linux
	@[ "$$(uname -s)" = Linux ] || { echo "build-linux: it is built on Linux; elsewhere, in a Debian container" >&2; exit 2; }
	OUT=bin/linux hack/release
	hack/bin-links bin/linux/persys bin/linux

proto:                 ## the contract in proto, compiled anew by the build and held against what is promised; no protoc
	$(NAMED) contract

dev-certs: build       ## certificates for trying, in dev/certs; NODE=name for another node than this machine
	hack/dev-certs bin/persys dev/certs

fmt:                   ## the sources, formatted
	cargo fmt

docker-build: release  ## both images, also as persys/compute-agent:latest
	hack/with-docker hack/docker-build target/dist/persys

docker-push:           ## the images to REGISTRY=host:port
	@[ -n "$(REGISTRY)" ] || REGISTRY= hack/docker-push
	@REGISTRY="$(REGISTRY)" hack/with-docker hack/docker-push

deploy-check:          ## manifest, units, etcd starter and pushing to a registry, each tried once
	cargo build --quiet --workspace --bin persys
	hack/with-docker hack/deploy-check "$${CARGO_TARGET_DIR:-target}/debug/persys"
