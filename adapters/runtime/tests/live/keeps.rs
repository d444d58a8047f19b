//! The contract.

use super::bench::bench;
use crate::contract;

macro_rules! keeps {
    ($($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            contract::$name(&bench()).await;
        }
    )*};
}

keeps!(
    lifecycle_twice,
    what_is_paused_is_shown_resumed_stopped_and_removed,
    what_runs_is_signalled_for_the_secrets_that_changed,
    labels_are_listed,
    exclusive_work_is_known,
    other_revision_is_refused,
    foreign_is_untouched,
    exit_codes_come_through,
    workloads_are_independent,
    one_workload_at_once,
    too_late_is_not_started,
    changes_are_told,
    commands_run_inside,
);

#[tokio::test]
async fn a_taken_port_is_named() {
    let port = super::registry::free_port();
    contract::a_taken_port_is_named(&bench(), port).await;
}
