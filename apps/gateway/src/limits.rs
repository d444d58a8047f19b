//! What a caller may cost before anybody knows who it is.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How much of everything there may be.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections from one address.
    pub connections_per_source: usize,
    /// Requests a second of one caller, and as many again at once.
    pub requests_per_second: u32,
    /// Bytes of a body.
    pub body: usize,
    /// How long the head of a request may take, and a connection may do nothing.
    pub head_within: Duration,
    /// How long a body may take.
    pub body_within: Duration,
    /// Streams, terminals and the like at a time.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            connections_per_source: 1_024,
            requests_per_second: 1_000,
            body: 4 * 1024 * 1024,
            head_within: Duration::from_secs(10),
            body_within: Duration::from_secs(15),
            streams: 4_096,
        }
    }
}

/// The connections there are.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    most_per_source: usize,
    counted: Mutex<(usize, BTreeMap<IpAddr, usize>)>,
}

/// A connection that counts, until it is dropped.
#[derive(Debug)]
pub struct Pass {
    connections: Arc<Connections>,
    source: IpAddr,
}

impl Connections {
    /// Room for as many as the limits say.
    pub fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            most: limits.connections,
            most_per_source: limits.connections_per_source,
            counted: Mutex::default(),
        })
    }

    /// Counts one more, if there is room.
    pub fn enter(self: &Arc<Self>, source: IpAddr) -> Option<Pass> {
        let source = source.to_canonical();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_source) = &mut *counted;
        let own = by_source.get(&source).copied().unwrap_or(0);
        if *all >= self.most || own >= self.most_per_source {
            return None;
        }
        *all += 1;
        by_source.insert(source, own + 1);
        Some(Pass { connections: Arc::clone(self), source })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut counted = self.connections.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_source) = &mut *counted;
        *all = all.saturating_sub(1);
        if let Some(own) = by_source.get_mut(&self.source) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                by_source.remove(&self.source);
            }
        }
    }
}

/// Most callers whose rate is remembered; beyond that those are forgotten who are quiet.
const MOST_REMEMBERED: usize = 8_192;

/// How often callers ask.
#[derive(Debug)]
pub struct Rates<K> {
    per_second: f64,
    began: Instant,
    /// For each caller, what is left of its allowance, and when that was.
    left: Mutex<BTreeMap<K, (f64, Duration)>>,
}

impl<K: Ord + Clone> Rates<K> {
    /// An allowance of so many requests a second for each caller.
    pub fn new(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second), began: Instant::now(), left: Mutex::default() }
    }

    /// Whether the caller may ask once more.
    pub fn allow(&self, caller: &K) -> bool {
        self.allow_at(caller, self.began.elapsed())
    }

    fn allow_at(&self, caller: &K, now: Duration) -> bool {
        let full = self.per_second * 2.0;
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.len() >= MOST_REMEMBERED && !left.contains_key(caller) {
            // Two seconds fill everybody up again: who was quiet for that long is like new.
            left.retain(|_, (_, at)| now.saturating_sub(*at) < Duration::from_secs(2));
            if left.len() >= MOST_REMEMBERED {
                return false;
            }
        }
        let (tokens, at) = match left.get_mut(caller) {
            Some(known) => known,
            None => left.entry(caller.clone()).or_insert((full, now)),
        };
        let gained = now.saturating_sub(*at).as_secs_f64() * self.per_second;
        *tokens = (*tokens + gained).min(full);
        *at = now;
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_cannot_take_all_the_room() {
        let limits = Limits { connections: 5, connections_per_source: 3, ..Limits::default() };
        let connections = Connections::new(&limits);
        let (one, other) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let mut passes: Vec<_> = (0..5).filter_map(|_| connections.enter(one)).collect();
        assert_eq!(passes.len(), 3);
        passes.extend((0..5).filter_map(|_| connections.enter(other)));
        assert_eq!((passes.len(), connections.count()), (5, 5));
        // The same machine under its other spelling is the same machine.
        passes.truncate(3);
        assert!(connections.enter("::ffff:10.0.0.1".parse().unwrap()).is_none());
        passes.clear();
        assert_eq!(connections.count(), 0);
        assert!(connections.enter(one).is_some());
    }

    #[test]
    fn who_asks_too_often_waits_and_others_do_not() {
        let rates = Rates::new(10);
        let at = Duration::from_secs(1);
        let allowed = (0..50).filter(|_| rates.allow_at(&"a", at)).count();
        assert_eq!(allowed, 20);
        assert!(rates.allow_at(&"b", at));
        assert!(!rates.allow_at(&"a", at + Duration::from_millis(50)));
        assert!(rates.allow_at(&"a", at + Duration::from_millis(150)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let rates = Rates::new(1);
        for nth in 0..MOST_REMEMBERED {
            assert!(rates.allow_at(&nth, Duration::ZERO));
        }
        assert!(!rates.allow_at(&MOST_REMEMBERED, Duration::ZERO));
        assert!(rates.allow_at(&MOST_REMEMBERED, Duration::from_secs(3)));
        assert!(rates.left.lock().unwrap().len() < 10);
    }
}
