//! What the rounds say together.

use std::time::Duration;

use serde_json::{Value, json};

use super::side::{Round, Used};
use super::{BAR, EACH, WARM_UP};
use crate::fleet::Options;

/// One cost of the three sides, over all rounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared {
    /// Microseconds of CPU for each workload, without traces.
    without: f64,
    /// How many percent of that traces add, and the standard error of that.
    more: f64,
    error: f64,
    /// How many percent the two without are apart.
    alike: f64,
}

/// Everything that is told.
#[derive(Debug)]
pub(super) struct Results {
    scheduler: Compared,
    all: Compared,
}

impl Results {
    /// `rounds` are those of two sides without traces and of one with them.
    pub(super) fn new(rounds: &[Vec<Round>]) -> Self {
        Self {
            scheduler: Compared::new(rounds, |used| used.scheduler),
            all: Compared::new(rounds, |used| used.scheduler + used.others),
        }
    }

    /// Whether it is less with all that the number may be off by.
    pub(super) fn met(&self) -> bool {
        self.all.more + 2.0 * self.all.error < BAR
    }

    pub(super) fn table(&self, share: f64, spans: u64) -> String {
        let line = |name: &str, one: &Compared| {
            let Compared { without, more, error, alike } = one;
            let added = without * more / 100.0;
            format!(
                "cpu/workload  {name} {without:.1} us without, {added:+.1} us with: \
                 {more:+.1} % (standard error {error:.1}; two without differ by {alike:+.1} %)"
            )
        };
        format!(
            "traces, share {share}: {spans} spans\n{}\n{}   {} (bar {BAR} %, with two standard errors)",
            line("scheduler", &self.scheduler),
            line("with agents and clients", &self.all),
            if self.met() { "met" } else { "MISSED" },
        )
    }

    pub(super) fn json(&self, options: &Options, spans: u64, rounds: &[Vec<Round>]) -> Value {
        let nanos = |used: &Used| (used.scheduler.as_nanos(), used.others.as_nanos());
        let both = |round: &Round| (nanos(&round.turn), nanos(&round.whole));
        let side = |rounds: &Vec<Round>| rounds.iter().map(both).collect::<Vec<_>>();
        json!({
            "agents": options.agents,
            "workloads_a_round": EACH,
            "share": options.share,
            "spans": spans,
            "scheduler": self.scheduler.json(),
            "all": self.all.json(),
            "cpu_ns_of_turns_and_rounds": rounds.iter().map(side).collect::<Vec<_>>(),
            "met": self.met(),
        })
    }
}

impl Compared {
    fn new(rounds: &[Vec<Round>], which: fn(Used) -> Duration) -> Self {
        let costs = |part: fn(&Round) -> Used| -> Vec<Vec<f64>> {
            let cost = |round: &Round| which(part(round)).as_secs_f64() * 1e6 / per(EACH);
            rounds.iter().map(|side| side.iter().skip(WARM_UP).map(cost).collect()).collect()
        };
        let (turns, wholes) = (costs(|round| round.turn), costs(|round| round.whole));
        let ([one_turn, other_turn, _], [one, other, with]) = (turns.as_slice(), wholes.as_slice())
        else {
            return Self { without: f64::NAN, more: f64::NAN, error: f64::NAN, alike: f64::NAN };
        };
        let (without, _) = middle(between(one_turn, other_turn, f64::midpoint));
        let percent = |before, after| 100.0 * (after - before) / without;
        let half = between(one, other, f64::midpoint);
        let (more, error) = middle(between(&half, with, percent));
        let (alike, _) = middle(between(one, other, percent));
        Self { without, more, error, alike }
    }

    fn json(&self) -> Value {
        json!({
            "without_us": self.without, "percent": self.more, "standard_error": self.error,
            "alike_percent": self.alike,
        })
    }
}

/// What the same rounds of two sides give together.
fn between(one: &[f64], other: &[f64], give: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| give(*one, *other)).collect()
}

fn per(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)).max(1.0)
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / per(all.len())
}

/// The mean of the middle half, and its standard error. A round in which somebody else had the machine
/// is far from the others and counts for nothing.
fn middle(mut all: Vec<f64>) -> (f64, f64) {
    all.sort_by(f64::total_cmp);
    let cut = all.len() / 4;
    let kept = all.get(cut..all.len() - cut).unwrap_or_default();
    let (low, high) =
        (kept.first().copied().unwrap_or_default(), kept.last().copied().unwrap_or_default());
    // What was cut counts for the error as the last that was kept.
    let held: Vec<f64> = all.iter().map(|one| one.clamp(low, high)).collect();
    let about = mean(&held);
    let squares: Vec<f64> = held.iter().map(|one| (one - about).powi(2)).collect();
    (mean(kept), mean(&squares).sqrt() / (0.5 * per(all.len()).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds that cost so many microseconds a workload at the scheduler, and as many at the others.
    fn side(costs: &[f64]) -> Vec<Round> {
        let used = |micros: f64| {
            let time = Duration::from_secs_f64(micros * per(EACH) / 1e6);
            Used { scheduler: time, others: time }
        };
        let round = |cost: &f64| Round { turn: used(*cost), whole: used(cost + 50.0) };
        let warm_up = [9_999.0; WARM_UP];
        warm_up.iter().chain(costs).map(round).collect()
    }

    fn results(with: &[f64]) -> Results {
        let without = vec![100.0; with.len()];
        Results::new(&[side(&without), side(&without), side(with)])
    }

    #[test]
    fn what_is_alike_differs_by_nothing_and_what_costs_more_by_that() {
        let same = results(&[100.0; 12]);
        assert!(same.all.more.abs() < 0.01 && same.all.error < 0.01 && same.met(), "{same:?}");
        let more = results(&[105.0; 12]);
        assert!((more.all.more - 5.0).abs() < 0.01, "of the turns, not of idle agents: {more:?}");
        assert!((more.scheduler.without - 100.0).abs() < 0.01 && !more.met(), "{more:?}");
    }

    #[test]
    fn one_wild_round_counts_for_nothing_and_much_noise_misses_the_bar() {
        let mut costs = [102.0; 12];
        costs[3] = 900.0;
        let wild = results(&costs);
        assert!((wild.all.more - 2.0).abs() < 0.01 && wild.met(), "{wild:?}");
        let noisy: Vec<f64> = (0..12).map(|nth| if nth % 2 == 0 { 90.0 } else { 114.0 }).collect();
        let noisy = results(&noisy);
        assert!((noisy.all.more - 2.0).abs() < 0.01 && !noisy.met(), "{noisy:?}");
    }
}
