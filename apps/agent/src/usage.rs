//! What each workload uses: read for all of them at once now and then, kept, and told.
//!
//! It is told with beats, and only where it says something new: a fleet at rest sends none of it but
//! a sign of life a minute. Nothing is decided by it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use persys_model::id::WorkloadId;
use persys_model::spec::WorkloadType;
use persys_model::time::WallMillis;
use persys_proto::control::v1::WorkloadUsageSnapshot;
use persys_proto::convert::time::timestamp;
use persys_runtime::inside::Reading;
use tokio::time::Instant;

use crate::host;
use crate::runtimes::Runtimes;

/// How often everything is read.
const EVERY: Duration = Duration::from_secs(10);
/// What did not change is told again after this long.
const AGAIN: Duration = Duration::from_mins(1);
/// Most told with one beat; the rest follows with the next.
const MOST_TOLD: usize = 256;
/// Two readings closer than this say little about the time between.
const SHORTEST: Duration = Duration::from_millis(200);
/// Differences below these are not worth a word.
const CPU_PERCENT: f64 = 1.0;
const BYTES: u64 = 1 << 20;

/// What one workload uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// What runs it, where that is one kind.
    pub kind: Option<WorkloadType>,
    /// Hundredths of one core, since the reading before.
    pub cpu_percent: f64,
    /// As it was read.
    pub reading: Reading,
    /// When.
    pub at: WallMillis,
}

impl Sample {
    /// As it is told.
    #[must_use]
    pub fn to_wire(self, workload: &WorkloadId) -> WorkloadUsageSnapshot {
        WorkloadUsageSnapshot {
            workload_id: workload.to_string(),
            r#type: self.kind.map(|kind| kind.word().to_owned()).unwrap_or_default(),
            cpu_percent: self.cpu_percent,
            memory_bytes: signed(self.reading.memory_bytes),
            disk_read_bytes: signed(self.reading.disk_read_bytes),
            disk_write_bytes: signed(self.reading.disk_written_bytes),
            net_rx_bytes: signed(self.reading.network_in_bytes),
            net_tx_bytes: signed(self.reading.network_out_bytes),
            collected_at: Some(timestamp(self.at)),
            source: "runtime".to_owned(),
        }
    }

    /// Hundredths of one core since then, by a later reading; `None` if it began anew or the clock was
    /// set back meanwhile.
    #[must_use]
    pub fn percent_until(&self, now: &Reading, at: WallMillis) -> Option<f64> {
        let between = Duration::from_millis(at.0.checked_sub(self.at.0)?);
        let went_on = now.cpu_nanos >= self.reading.cpu_nanos;
        let share = || {
            if between < SHORTEST { self.cpu_percent } else { percent(&self.reading, now, between) }
        };
        went_on.then(share)
    }

    fn differs(&self, other: &Self) -> bool {
        let (one, two) = (&self.reading, &other.reading);
        let pairs = [
            (one.memory_bytes, two.memory_bytes),
            (one.disk_read_bytes, two.disk_read_bytes),
            (one.disk_written_bytes, two.disk_written_bytes),
            (one.network_in_bytes, two.network_in_bytes),
            (one.network_out_bytes, two.network_out_bytes),
        ];
        (self.cpu_percent - other.cpu_percent).abs() >= CPU_PERCENT
            || pairs.iter().any(|(one, two)| one.abs_diff(*two) >= BYTES)
    }
}

/// Parts of one core in use between two readings, in hundredths.
#[must_use]
pub fn percent(before: &Reading, after: &Reading, between: Duration) -> f64 {
    let used = Duration::from_nanos(after.cpu_nanos.saturating_sub(before.cpu_nanos));
    if between.is_zero() { 0.0 } else { used.as_secs_f64() / between.as_secs_f64() * 100.0 }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

#[derive(Debug)]
struct Kept {
    read: (Reading, Instant),
    sample: Option<Sample>,
    told: Option<(Sample, Instant)>,
}

/// What all workloads use.
#[derive(Debug, Default)]
pub struct Usages(Mutex<BTreeMap<WorkloadId, Kept>>);

impl Usages {
    fn all(&self) -> MutexGuard<'_, BTreeMap<WorkloadId, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in one reading of everything that runs. How much CPU that is shows with the second.
    pub fn take(
        &self,
        readings: BTreeMap<WorkloadId, (Option<WorkloadType>, Reading)>,
        now: Instant,
        date: WallMillis,
    ) {
        let mut all = self.all();
        all.retain(|workload, _| readings.contains_key(workload));
        for (workload, (kind, reading)) in readings {
            let read = (reading, now);
            let Some(kept) = all.get_mut(&workload) else {
                all.insert(workload, Kept { read, sample: None, told: None });
                continue;
            };
            let (before, at) = std::mem::replace(&mut kept.read, read);
            let between = now.saturating_duration_since(at);
            // Counters that fell are those of another start.
            if reading.cpu_nanos >= before.cpu_nanos && !between.is_zero() {
                let cpu_percent = percent(&before, &reading, between);
                kept.sample = Some(Sample { kind, cpu_percent, reading, at: date });
            }
        }
    }

    /// What a workload used of late.
    #[must_use]
    pub fn of(&self, workload: &WorkloadId) -> Option<Sample> {
        self.all().get(workload)?.sample
    }

    /// What everything that runs used of late.
    #[must_use]
    pub fn samples(&self) -> Vec<(WorkloadId, Sample)> {
        let all = self.all();
        let known = |(id, kept): (&WorkloadId, &Kept)| Some((id.clone(), kept.sample?));
        all.iter().filter_map(known).collect()
    }

    /// What is worth telling now; it counts as told.
    pub fn news(&self, now: Instant) -> Vec<WorkloadUsageSnapshot> {
        let mut news = Vec::new();
        for (workload, kept) in self.all().iter_mut() {
            let Some(sample) = kept.sample else { continue };
            let known = kept.told.as_ref().is_some_and(|(told, at)| {
                !sample.differs(told) && now.saturating_duration_since(*at) < AGAIN
            });
            if !known && news.len() < MOST_TOLD {
                kept.told = Some((sample, now));
                news.push(sample.to_wire(workload));
            }
        }
        news
    }

    /// Whoever is told from now on knows nothing yet.
    pub fn tell_anew(&self) {
        for kept in self.all().values_mut() {
            kept.told = None;
        }
    }
}

/// Reads everything now and then, for ever.
pub async fn sample(runtimes: Runtimes) {
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let readings = runtimes.usage_of_all().await;
        runtimes.usages().take(readings, Instant::now(), host::date());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> WorkloadId {
        WorkloadId::fixed("web")
    }

    fn one(
        cpu_seconds: u64,
        memory_mib: u64,
    ) -> BTreeMap<WorkloadId, (Option<WorkloadType>, Reading)> {
        let reading = Reading {
            cpu_nanos: cpu_seconds * 1_000_000_000,
            memory_bytes: memory_mib << 20,
            ..Reading::default()
        };
        [(web(), (Some(WorkloadType::Container), reading))].into()
    }

    #[tokio::test(start_paused = true)]
    async fn cpu_is_the_difference_of_two_readings() {
        let (usages, begun) = (Usages::default(), Instant::now());
        usages.take(one(100, 5), begun, WallMillis(1));
        assert_eq!(usages.of(&web()), None, "one reading tells nothing of a rate");
        usages.take(one(105, 5), begun + EVERY, WallMillis(2));
        let sample = usages.of(&web()).unwrap();
        assert!((sample.cpu_percent - 50.0).abs() < 0.01, "{sample:?}");
        usages.take(one(1, 5), begun + EVERY * 2, WallMillis(3));
        assert_eq!(usages.of(&web()).unwrap().at, WallMillis(2), "another start counts anew");
        usages.take(BTreeMap::new(), begun + EVERY * 3, WallMillis(4));
        assert_eq!(usages.of(&web()), None, "what does not run uses nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_new_is_told_and_everything_once_a_minute() {
        let (usages, begun) = (Usages::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        for (seconds, cpu, memory, told) in [
            (0, 0, 5, 0),
            (10, 0, 5, 1),
            (20, 0, 5, 0),
            (30, 1, 5, 1),
            (40, 2, 5, 0),
            (50, 3, 9, 1),
            (60, 4, 9, 0),
            (109, 9, 9, 0),
            (110, 9, 9, 1),
        ] {
            usages.take(one(cpu, memory), at(seconds), WallMillis(seconds));
            assert_eq!(usages.news(at(seconds)).len(), told, "after {seconds} s");
        }
        usages.tell_anew();
        let news = usages.news(at(110));
        assert_eq!((news[0].workload_id.as_str(), news[0].memory_bytes), ("web", 9 << 20));
    }

    #[test]
    fn what_is_known_already_is_half_of_a_rate() {
        let kept = |cpu_nanos| Reading { cpu_nanos, ..Reading::default() };
        let last = Sample {
            kind: None,
            cpu_percent: 7.0,
            reading: kept(1_000_000_000),
            at: WallMillis(1000),
        };
        let until = |cpu_nanos, at| last.percent_until(&kept(cpu_nanos), WallMillis(at));
        assert!((until(1_500_000_000, 2000).unwrap() - 50.0).abs() < 0.001);
        assert!((until(1_500_000_000, 1100).unwrap() - 7.0).abs() < 0.001, "too close to tell");
        assert_eq!(until(999_999_999, 2000), None, "another start counts anew");
        assert_eq!(until(1_500_000_000, 999), None, "the clock was set back");
    }

    #[test]
    fn a_rate_is_the_difference_of_two_readings() {
        let (before, after) =
            (Reading::default(), Reading { cpu_nanos: 50_000_000, ..Reading::default() });
        let rate = percent(&before, &after, Duration::from_millis(200));
        assert!((rate - 25.0).abs() < 0.001, "{rate}");
        assert!(percent(&after, &before, Duration::ZERO).abs() < 0.001);
    }
}
