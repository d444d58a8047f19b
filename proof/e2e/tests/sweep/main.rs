//! Scheduler and agent killed at every point of a scenario on real Docker: the same in the end.
//!
//! Takes minutes: `make sweep`. A few of the points are among the live tests.

#[cfg(test)]
mod every {
    use std::path::Path;

    use persys_e2e::sweep::{Victim, sweep};

    /// Fewer points than this mean that effects were not seen.
    const FEWEST: u64 = 30;

    fn program() -> &'static Path {
        Path::new(env!("CARGO_BIN_EXE_node"))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn point_of_an_agent() {
        let deaths = sweep(program(), Victim::Agent, 1).await;
        assert!(deaths >= FEWEST, "{deaths}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn point_of_a_scheduler() {
        let deaths = sweep(program(), Victim::Scheduler, 1).await;
        assert!(deaths >= FEWEST, "{deaths}");
    }
}
