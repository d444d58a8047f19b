# Persys Compute. `make up` shows it working, `make test` proves it.

SEEDS ?= 2000
SIM   := cargo run --quiet --profile proof -p persys-sim --bin sim --
BENCH := cargo run --quiet --release -p persys-bench --bin

.PHONY: up test prepare lint unit live sweep sim zoo bench-placement bench-core bench-docker

up: prepare            ## a small cluster, narrated: nodes join, work runs, a node dies, work moves
	$(SIM) --demo

test: prepare lint unit live sim zoo   ## all that CI runs

prepare:
	@hack/prepare

lint:
	cargo fmt --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

unit:
	cargo test --workspace --quiet

live:                  ## against a real Docker, which is started if there is none
	hack/docker-up
	cargo test --quiet -p persys-runtime --features live-docker --test docker
	cargo test --quiet -p persys-e2e --features live-docker --test live -- --test-threads=4
	hack/docker-down

sweep:                 ## scheduler and agent killed at every effect, on real Docker; takes minutes
	hack/docker-up
	cargo test --quiet -p persys-e2e --features live-docker --test sweep
	hack/docker-down

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

bench-docker:          ## against Docker itself and Swarm, on a daemon of its own
	@hack/docker-up
	@mkdir -p target/bench
	$(BENCH) docker -- target/bench/docker.json
	@hack/docker-down
