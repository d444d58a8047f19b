//! What every store does, whichever it is. `suite!` runs all of it against one fixture.

pub mod chain;
pub mod copies;
pub mod damage;
pub mod faulty;
pub mod history;
pub mod leading;
pub mod sample;

use std::sync::Arc;

use persys_model::token::Term;
use persys_store::{Campaign, Settings, Store};

/// A store under test, and what its surroundings can do to it.
#[async_trait::async_trait]
pub trait Fixture: Sized + Send {
    /// A new, empty one.
    async fn new(settings: Settings) -> Self;

    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// The process that leads is gone, its lease has run out, and another process is there: from
    /// now on [`Fixture::store`] is what that one sees.
    async fn succeed(&mut self);

    /// Somebody puts bytes under a key, past the store. Whoever led has to campaign again.
    async fn put_bytes(&mut self, key: &str, bytes: &[u8]);

    /// Somebody looks at a key, past the store. Whoever led has to campaign again.
    async fn bytes(&mut self, key: &str) -> Option<Vec<u8>>;
}

/// Lease that no test outlives unless it means to.
pub const TTL_MS: u64 = 10_000;

/// Wins a campaign.
pub async fn lead(store: &Arc<dyn Store>, candidate: &str) -> Term {
    match store.campaign(&Arc::from(candidate), TTL_MS).await.unwrap() {
        Campaign::Won(term) => term,
        Campaign::HeldBy(holder, _) => panic!("{holder} leads, not {candidate}"),
    }
}

macro_rules! suite {
    (@ $test:meta, $fixture:ty: $($module:ident { $($case:ident),+ $(,)? })+) => {
        $(mod $module {
            use super::*;
            $(
                #[$test]
                async fn $case() {
                    crate::contract::$module::$case::<$fixture>().await;
                }
            )+
        })+
    };
    ($fixture:ty) => {
        suite!($fixture, tokio::test(start_paused = true));
    };
    // A store that talks to another process needs a clock that goes.
    ($fixture:ty, $test:meta) => {
        suite!(@ $test, $fixture:
            leading {
                one_candidate_leads,
                a_candidate_never_gets_a_term_twice,
                a_successor_finds_everything_and_a_higher_term,
                a_closed_store_does_nothing,
                anybody_may_look_and_changes_nothing,
            }
            chain {
                a_commit_needs_the_head_it_builds_on,
                a_commit_that_is_sent_again_changes_nothing,
                a_load_shuts_out_what_is_on_its_way,
                a_store_that_lost_something_is_not_written_to,
                units_are_stored_together_or_not_at_all,
                many_units_fit_in_one_commit,
                a_rebuilt_cluster_numbers_on_above_what_was_lost,
                everything_is_read_back,
                a_root_stands_in_front_of_every_key,
                ten_thousand_workloads_are_read_back,
            }
            history {
                the_audit_log_is_read_in_stretches,
                revisions_are_read_for_one_workload,
                events_come_in_order,
                old_events_go,
                a_clock_that_goes_back_does_not_disturb_the_order,
                an_unreadable_event_is_counted,
                a_made_up_event_hides_nothing,
            }
            copies {
                a_copy_is_the_same_byte_for_byte,
                a_copy_goes_under_another_root,
                nothing_is_filled_that_holds_something,
                an_interrupted_filling_is_done_again,
            }
            damage {
                what_cannot_be_read_is_kept_aside,
                a_head_that_cannot_be_read_stops_everything,
                a_leader_that_cannot_be_read_is_not_guessed,
                fields_of_a_newer_release_survive,
            }
        );
    };
}
