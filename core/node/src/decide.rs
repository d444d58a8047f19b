//! The table: what one workload needs next, from what is wanted and what is there.
//!
//! ```text
//!            absent     created     running      ended            unknown
//!   Run      Start      Start       -            by the policy    -
//!            (paused: Start, which resumes it; stuck: Unstick, which ends it; both once it is ripe)
//!   Pause    Start      Start       Pause        by the policy    -
//!            (other version: Prepare while the other runs, then Remove; in place: Start, over it;
//!             once the decision is over: nothing, but what runs is removed unless it is in place or
//!             was left alone, and what was given up while it ran is stopped;
//!             running, with secrets it was not told of: Refresh first)
//!   Rest     -          -           Stop         -                -
//!   Gone     Remove     Remove      Remove       Remove           -
//! ```
//!
//! Three things come before it: past its lease exclusive work is stopped whatever else holds; what
//! nobody confirmed in this session is neither started nor stopped; and while the agent holds,
//! nothing is stopped. The table asks for one idempotent verb at a time; what it says after that
//! verb is the next one.

use persys_model::failure::Failure;
use persys_model::spec::container::RestartPolicy;

use crate::ledger::Goal;
use crate::restart::{self, MachineEnd, Restarts, Verdict};

/// All that the table looks at.
#[expect(clippy::struct_excessive_bools, reason = "the columns of a table")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// What is wanted.
    pub goal: Goal,
    /// What is there.
    pub thing: Thing,
    /// Whether the scheduler named it in this session.
    pub confirmed: bool,
    /// Whether the agent takes nothing new and stops nothing.
    pub hold: bool,
    /// Whether the decision is over: completed, or given up.
    pub over: bool,
    /// Whether the other version was left alone when it was given up.
    pub kept: bool,
    /// Whether all that is needed to make the wanted version was fetched.
    pub prepared: bool,
    /// Whether it was given up while it ran, so that it is stopped.
    pub evicted: bool,
    /// Whether it is known what to run.
    pub runnable: bool,
    /// Whether another version is brought over in place rather than removed first.
    pub in_place: bool,
    /// Whether it ran under this decision by our will, so that an end is its own doing.
    pub ran: bool,
    /// Restarts so far.
    pub restarts: Restarts,
    /// Rule for starting again what has ended.
    pub rule: Rule,
    /// Whether it may run here, as far as the lease goes.
    pub leave: Leave,
    /// Repair of what is paused or stuck.
    pub repair: Repair,
    /// Whether secrets have new values that what runs was not told of.
    pub untold: bool,
}

/// Repair of what is paused without an order, or stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// It was found a moment ago: it may pass by itself, and the scheduler hears of it first.
    Waits,
    /// It is due.
    Due,
    /// It did not help as often as it may be tried: an operator has to look.
    UsedUp,
}

/// Rule for starting again what has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The restart policy of a container or a stack.
    Policy(RestartPolicy),
    /// A machine is started again unless `boots` boots in a row failed.
    Machine {
        /// The kind of its last end.
        end: MachineEnd,
        /// Failed boots in a row after which it is given up.
        boots: u32,
    },
}

/// What is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// The runtime does not say.
    Unknown,
    /// Nothing.
    Absent,
    /// Something that was not started since it was made.
    Created(Version),
    /// Something that runs.
    Running(Version),
    /// Something that is paused.
    Paused(Version),
    /// Something that is stuck.
    Stuck(Version),
    /// Something that ended with this code.
    Exited(Version, i32),
}

/// Whether what is there was made from the wanted revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// It was.
    Same,
    /// It was made from another.
    Other,
}

/// Whether a workload may run, as far as the lease goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It needs no lease.
    Free,
    /// The lease is long enough to start it.
    Granted,
    /// There is no lease yet, or too little of it left to start anything.
    Ending,
    /// The lease ran out.
    Over,
}

/// What one workload needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing, or nothing before something else happens.
    Nothing,
    /// Start it.
    Start,
    /// Count a restart, wait as the row of restarts demands, then start it.
    Restart(Failure),
    /// Give it the new values of its secrets, and signal it.
    Refresh,
    /// Pause it.
    Pause,
    /// End what is stuck; the policy then says whether it is started again.
    Unstick,
    /// Stop it.
    Stop,
    /// Fetch what the wanted version needs while the other one still runs.
    Prepare,
    /// Remove the other version of it, so that the wanted one can be made. Data stays.
    Replace,
    /// Remove it for good.
    Remove {
        /// Whether data goes too.
        purge: bool,
    },
    /// Write down that it ended well.
    Complete,
    /// Write down that it failed.
    GiveUp(Failure),
}

/// What `case` needs next.
#[must_use]
pub fn next(case: &Case) -> Next {
    match case.goal {
        Goal::Gone { purge } => gone(case, purge),
        Goal::Run | Goal::Pause | Goal::Rest if past_lease(case) => Next::Stop,
        Goal::Run | Goal::Pause | Goal::Rest if !case.confirmed => Next::Nothing,
        Goal::Rest => rest(case),
        Goal::Run | Goal::Pause => run(case),
    }
}

fn past_lease(case: &Case) -> bool {
    match (case.leave, case.thing) {
        // What is paused can be resumed by anybody, so it counts as running.
        (Leave::Over, Thing::Running(_) | Thing::Paused(_) | Thing::Stuck(_)) => true,
        (Leave::Over, Thing::Unknown | Thing::Absent | Thing::Created(_) | Thing::Exited(..))
        | (Leave::Free | Leave::Granted | Leave::Ending, _) => false,
    }
}

fn gone(case: &Case, purge: bool) -> Next {
    match case.thing {
        _ if case.hold => Next::Nothing,
        Thing::Unknown => Next::Nothing,
        Thing::Absent
        | Thing::Created(_)
        | Thing::Running(_)
        | Thing::Paused(_)
        | Thing::Stuck(_)
        | Thing::Exited(..) => Next::Remove { purge },
    }
}

fn rest(case: &Case) -> Next {
    match case.thing {
        Thing::Running(_) | Thing::Paused(_) | Thing::Stuck(_) if case.hold => Next::Nothing,
        Thing::Running(_) | Thing::Paused(_) | Thing::Stuck(_) => Next::Stop,
        Thing::Unknown | Thing::Absent | Thing::Created(_) | Thing::Exited(..) => Next::Nothing,
    }
}

fn run(case: &Case) -> Next {
    if !case.runnable {
        return Next::Nothing;
    }
    if case.over {
        return over(case);
    }
    match case.leave {
        Leave::Ending | Leave::Over => return Next::Nothing,
        Leave::Free | Leave::Granted => {}
    }
    let rests = matches!(case.thing, Thing::Created(_) | Thing::Exited(..));
    match case.thing {
        Thing::Unknown => Next::Nothing,
        Thing::Absent if case.ran => Next::Restart(restart::vanished()),
        Thing::Absent => Next::Start,
        Thing::Created(Version::Other)
        | Thing::Running(Version::Other)
        | Thing::Paused(Version::Other)
        | Thing::Stuck(Version::Other)
        | Thing::Exited(Version::Other, _) => match (case.hold, case.in_place) {
            (true, _) => Next::Nothing,
            (false, true) => Next::Start,
            (false, false) if case.prepared || rests => Next::Replace,
            (false, false) => Next::Prepare,
        },
        Thing::Created(Version::Same) => Next::Start,
        // A program may end by a signal, so nothing is signalled while nothing may be stopped.
        Thing::Running(Version::Same) if case.untold && !case.hold => Next::Refresh,
        Thing::Running(Version::Same) => match (case.goal, case.hold) {
            (Goal::Pause, false) => Next::Pause,
            (Goal::Pause, true) | (Goal::Run | Goal::Rest | Goal::Gone { .. }, _) => Next::Nothing,
        },
        Thing::Paused(Version::Same) => match (case.goal, case.repair) {
            (Goal::Run, Repair::Due) => Next::Start,
            (Goal::Run, Repair::Waits | Repair::UsedUp)
            | (Goal::Pause | Goal::Rest | Goal::Gone { .. }, _) => Next::Nothing,
        },
        Thing::Stuck(Version::Same) => match case.repair {
            Repair::Due if !case.hold => Next::Unstick,
            Repair::Due | Repair::Waits | Repair::UsedUp => Next::Nothing,
        },
        Thing::Exited(Version::Same, _) if !case.ran => Next::Start,
        Thing::Exited(Version::Same, code) => {
            let verdict = match case.rule {
                Rule::Policy(policy) => restart::verdict(policy, code, case.restarts),
                Rule::Machine { end, boots } => {
                    restart::machine_verdict(end, code, case.restarts, boots)
                }
            };
            match verdict {
                Verdict::Complete => Next::Complete,
                Verdict::GiveUp(failure) => Next::GiveUp(failure),
                Verdict::Again(failure) => Next::Restart(failure),
            }
        }
    }
}

/// A decision that is over starts nothing. What an earlier one has there all the same, by a start that
/// hung and came late or because it could not be removed, goes: nobody knows that it runs. Only what is
/// updated in place, or was left alone, runs on in its last good version.
fn over(case: &Case) -> Next {
    match case.thing {
        Thing::Running(_) | Thing::Paused(_) | Thing::Stuck(_) if case.evicted && !case.hold => {
            Next::Stop
        }
        Thing::Running(Version::Other)
        | Thing::Paused(Version::Other)
        | Thing::Stuck(Version::Other)
            if !case.in_place && !case.kept && !case.hold =>
        {
            Next::Replace
        }
        Thing::Unknown
        | Thing::Absent
        | Thing::Created(_)
        | Thing::Running(_)
        | Thing::Paused(_)
        | Thing::Stuck(_)
        | Thing::Exited(..) => Next::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Thing::{Absent, Created, Exited, Paused, Running, Stuck, Unknown};
    use Version::{Other, Same};

    const THINGS: [Thing; 8] = [
        Unknown,
        Absent,
        Created(Same),
        Created(Other),
        Running(Same),
        Running(Other),
        Exited(Same, 1),
        Exited(Other, 1),
    ];

    fn case(goal: Goal, thing: Thing) -> Case {
        Case {
            goal,
            thing,
            confirmed: true,
            hold: false,
            over: false,
            kept: false,
            prepared: true,
            evicted: false,
            runnable: true,
            in_place: false,
            ran: true,
            restarts: Restarts::default(),
            rule: Rule::Policy(RestartPolicy::Always),
            leave: Leave::Free,
            repair: Repair::Due,
            untold: false,
        }
    }

    /// One row of the table: what each thing of `THINGS` needs.
    fn row(change: impl Fn(Thing) -> Case) -> [Next; 8] {
        THINGS.map(|thing| next(&change(thing)))
    }

    const GONE: Goal = Goal::Gone { purge: true };
    const REMOVE: Next = Next::Remove { purge: true };
    const NOTHING: [Next; 8] = [const { Next::Nothing }; 8];

    #[test]
    fn every_cell_of_the_table() {
        let again = Next::Restart(restart::ended(1));
        let (no, start, swap) = (Next::Nothing, Next::Start, Next::Replace);
        let back = Next::Restart(restart::vanished());
        assert_eq!(
            row(|thing| case(Goal::Run, thing)),
            [
                no.clone(),
                back,
                start.clone(),
                swap.clone(),
                no.clone(),
                swap.clone(),
                again,
                swap.clone()
            ],
            "run, after it ran"
        );
        assert_eq!(
            row(|thing| Case { ran: false, ..case(Goal::Run, thing) }),
            [
                no.clone(),
                start.clone(),
                start.clone(),
                swap.clone(),
                no.clone(),
                swap.clone(),
                start,
                swap
            ],
            "run, for the first time"
        );
        let stop = Next::Stop;
        assert_eq!(
            row(|thing| case(Goal::Rest, thing)),
            [
                no.clone(),
                no.clone(),
                no.clone(),
                no.clone(),
                stop.clone(),
                stop,
                no.clone(),
                no.clone()
            ]
        );
        let mut remove = [const { REMOVE }; 8];
        remove[0] = no;
        assert_eq!(row(|thing| case(GONE, thing)), remove);
    }

    #[test]
    fn what_updates_in_place_is_started_over_the_other_version() {
        for ran in [true, false] {
            let apart = row(|thing| Case { ran, ..case(Goal::Run, thing) });
            let in_place = row(|thing| Case { ran, in_place: true, ..case(Goal::Run, thing) });
            for ((thing, apart), in_place) in THINGS.into_iter().zip(apart).zip(in_place) {
                let wanted = if apart == Next::Replace { Next::Start } else { apart };
                assert_eq!(in_place, wanted, "{thing:?}");
            }
        }
        let held = |thing| Case { hold: true, in_place: true, ..case(Goal::Run, thing) };
        for thing in [Created(Other), Running(Other), Exited(Other, 1)] {
            assert_eq!(next(&held(thing)), Next::Nothing, "bringing over stops what runs");
        }
        let over = |thing| Case { over: true, in_place: true, ..case(Goal::Run, thing) };
        assert_eq!(row(over), NOTHING, "who gave up leaves what runs alone");
    }

    #[test]
    fn nobody_acts_without_a_word_a_spec_or_a_reason() {
        for goal in [Goal::Run, Goal::Rest] {
            assert_eq!(row(|thing| Case { confirmed: false, ..case(goal, thing) }), NOTHING);
        }
        for thing in THINGS {
            let over = Case { over: true, ..case(Goal::Run, thing) };
            let leftover = thing == Running(Other);
            assert_eq!(next(&over), if leftover { Next::Replace } else { Next::Nothing });
            assert_eq!(next(&Case { hold: true, ..over }), Next::Nothing);
        }
        assert_eq!(row(|thing| Case { runnable: false, ..case(Goal::Run, thing) }), NOTHING);
        assert_ne!(row(|thing| Case { confirmed: false, ..case(GONE, thing) }), NOTHING);
    }

    #[test]
    fn holding_stops_nothing_and_still_restarts() {
        let held = |goal| move |thing| Case { hold: true, ..case(goal, thing) };
        assert_eq!(row(held(Goal::Rest)), NOTHING);
        assert_eq!(row(held(GONE)), NOTHING);
        for (thing, next) in THINGS.into_iter().zip(row(held(Goal::Run))) {
            assert!(!matches!(next, Next::Stop | Next::Replace | Next::Remove { .. }), "{thing:?}");
        }
        assert!(matches!(next(&held(Goal::Run)(Exited(Same, 1))), Next::Restart(_)));
    }

    #[test]
    fn past_its_lease_exclusive_work_stops_whatever_else_holds() {
        for confirmed in [true, false] {
            for hold in [true, false] {
                let over =
                    |goal, thing| Case { leave: Leave::Over, confirmed, hold, ..case(goal, thing) };
                for thing in [Running(Same), Running(Other)] {
                    assert_eq!(next(&over(Goal::Run, thing)), Next::Stop);
                    assert_eq!(next(&over(Goal::Rest, thing)), Next::Stop);
                }
                for thing in [Absent, Created(Same), Exited(Same, 0), Exited(Other, 0), Unknown] {
                    assert_eq!(next(&over(Goal::Run, thing)), Next::Nothing);
                }
            }
        }
        assert_eq!(row(|thing| Case { leave: Leave::Ending, ..case(Goal::Run, thing) }), NOTHING);
    }

    #[test]
    fn an_end_is_judged_by_the_policy() {
        let ended = |policy, code, total| {
            let restarts = Restarts { total, in_row: 0 };
            let rule = Rule::Policy(policy);
            next(&Case { restarts, rule, ..case(Goal::Run, Exited(Same, code)) })
        };
        assert_eq!(ended(RestartPolicy::No, 0, 0), Next::Complete);
        assert_eq!(ended(RestartPolicy::No, 2, 0), Next::GiveUp(restart::ended(2)));
        let thrice = RestartPolicy::OnFailure { max_retries: 3 };
        assert_eq!(ended(thrice, 2, 2), Next::Restart(restart::ended(2)));
        assert_eq!(ended(thrice, 2, 3), Next::GiveUp(restart::ended(2)));
        let rule = Rule::Machine { end: MachineEnd::Boot, boots: 1 };
        let machine = Case { rule, ..case(Goal::Run, Exited(Same, 1)) };
        assert_eq!(next(&machine), Next::GiveUp(restart::ended(1)));
    }

    #[test]
    fn what_stands_still_is_repaired_when_that_is_due_and_paused_only_by_order() {
        let of = |goal, thing, repair| next(&Case { repair, ..case(goal, thing) });
        let (run, pause) = (Goal::Run, Goal::Pause);
        assert_eq!(of(run, Paused(Same), Repair::Waits), Next::Nothing);
        assert_eq!(of(run, Paused(Same), Repair::Due), Next::Start, "which resumes it");
        assert_eq!(of(run, Paused(Same), Repair::UsedUp), Next::Nothing);
        assert_eq!(of(run, Stuck(Same), Repair::Waits), Next::Nothing);
        assert_eq!(of(run, Stuck(Same), Repair::Due), Next::Unstick);
        assert_eq!(of(pause, Stuck(Same), Repair::Due), Next::Unstick);
        assert_eq!(of(pause, Paused(Same), Repair::Due), Next::Nothing, "as ordered");
        assert_eq!(of(pause, Running(Same), Repair::Waits), Next::Pause);
        for thing in [Paused(Other), Stuck(Other)] {
            assert_eq!(of(run, thing, Repair::Waits), Next::Replace, "{thing:?}");
            assert_eq!(of(pause, thing, Repair::Waits), Next::Replace, "{thing:?}");
        }
        for thing in [Absent, Created(Same), Created(Other), Exited(Same, 1), Running(Other)] {
            assert_eq!(next(&case(pause, thing)), next(&case(run, thing)), "{thing:?}");
        }
        for thing in [Paused(Same), Paused(Other), Stuck(Same), Stuck(Other)] {
            assert_eq!(next(&case(Goal::Rest, thing)), Next::Stop, "{thing:?}");
            assert_eq!(next(&case(GONE, thing)), REMOVE, "{thing:?}");
            let over = |goal| next(&Case { leave: Leave::Over, ..case(goal, thing) });
            assert_eq!([over(run), over(pause)], [Next::Stop, Next::Stop], "it could be resumed");
            let held = Case { hold: true, ..case(Goal::Rest, thing) };
            assert_eq!(next(&held), Next::Nothing);
        }
        for thing in [Running(Same), Stuck(Same)] {
            let held = Case { hold: true, ..case(pause, thing) };
            assert_eq!(next(&held), Next::Nothing, "holding stops nothing");
        }
    }
}
