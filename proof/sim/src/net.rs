//! The network: who hears whom, how late, how often.
//!
//! Each direction of each link is its own: it can be cut, or hold everything back for a while.
//! Everywhere messages may be lost, doubled, or come so late that others overtake them.

use std::collections::{BTreeMap, BTreeSet};

use crate::rng::Rng;

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// A scheduler's machine.
    Scheduler(usize),
    /// A node.
    Node(usize),
    /// All users.
    Users,
}

/// One direction of a link.
pub(crate) type Way = (Peer, Peer);

/// What happens to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody ever sees it.
    Lost,
    /// It arrives after this long, and perhaps once more after that long.
    Arrives(u64, Option<u64>),
    /// It arrives this long after the virtual moment at which the way is let go.
    Held,
}

/// How bad the network is in general, per mille.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Weather {
    /// Messages lost.
    pub(crate) loss: u64,
    /// Messages doubled.
    pub(crate) doubled: u64,
    /// Messages that come very late.
    pub(crate) late: u64,
    /// How late, at most, in milliseconds.
    pub(crate) tail_ms: u64,
}

/// All links.
#[derive(Debug)]
pub(crate) struct Net {
    rng: Rng,
    weather: Weather,
    cut: BTreeSet<Way>,
    held: BTreeSet<Way>,
    /// When a way was last known to be bad: until then nothing can be concluded from silence.
    bad_until: BTreeMap<Way, u64>,
    weather_bad_until: u64,
}

impl Net {
    /// A perfect network.
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rng,
            weather: Weather::default(),
            cut: BTreeSet::new(),
            held: BTreeSet::new(),
            bad_until: BTreeMap::new(),
            weather_bad_until: 0,
        }
    }

    /// What becomes of a message sent along `way`.
    pub(crate) fn send(&mut self, way: Way) -> Fate {
        let delay = self.delay();
        let doubled = self.rng.chance(self.weather.doubled).then(|| self.delay());
        if self.cut.contains(&way) || self.rng.chance(self.weather.loss) {
            return Fate::Lost;
        }
        if self.held.contains(&way) {
            return Fate::Held;
        }
        Fate::Arrives(delay, doubled)
    }

    /// How long one message takes.
    pub(crate) fn delay(&mut self) -> u64 {
        if self.rng.chance(self.weather.late) {
            self.rng.between(50, self.weather.tail_ms.max(50))
        } else {
            self.rng.between(1, 12)
        }
    }

    /// The weather changes at `now`.
    pub(crate) fn set_weather(&mut self, weather: Weather, now: u64) {
        if self.weather != Weather::default() {
            // What was sent in bad weather may still be on its way.
            self.weather_bad_until = self.weather_bad_until.max(now + self.weather.tail_ms);
        }
        self.weather = weather;
    }

    /// Nothing goes along `way` any more.
    pub(crate) fn cut(&mut self, way: Way) {
        self.cut.insert(way);
    }

    /// Everything sent along `way` waits.
    pub(crate) fn hold(&mut self, way: Way) {
        self.held.insert(way);
    }

    /// `way` is as it should be again.
    pub(crate) fn mend(&mut self, way: Way, now: u64) {
        let was_cut = self.cut.remove(&way);
        if self.held.remove(&way) || was_cut {
            self.bad_until.insert(way, now);
        }
    }

    /// Everything is as it should be again.
    pub(crate) fn mend_all(&mut self, now: u64) {
        let ways: Vec<Way> = self.cut.iter().chain(&self.held).copied().collect();
        for way in ways {
            self.mend(way, now);
        }
        self.set_weather(Weather::default(), now);
    }

    /// Whether `way` carried every message since `since`, and in time.
    pub(crate) fn was_good_since(&self, way: Way, since: u64) -> bool {
        self.weather.loss == 0
            && self.weather.late == 0
            && self.weather_bad_until <= since
            && !self.cut.contains(&way)
            && !self.held.contains(&way)
            && self.bad_until.get(&way).is_none_or(|until| *until <= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Concern;

    const WAY: Way = (Peer::Scheduler(0), Peer::Node(1));
    const BACK: Way = (Peer::Node(1), Peer::Scheduler(0));

    fn net() -> Net {
        Net::new(Rng::new(3, Concern::Network))
    }

    #[test]
    fn a_cut_is_one_way_and_remembered() {
        let mut net = net();
        net.cut(WAY);
        assert_eq!(net.send(WAY), Fate::Lost);
        assert!(matches!(net.send(BACK), Fate::Arrives(_, None)));
        net.mend(WAY, 100);
        assert!(matches!(net.send(WAY), Fate::Arrives(_, None)));
        assert!(!net.was_good_since(WAY, 99) && net.was_good_since(WAY, 100));
        assert!(net.was_good_since(BACK, 0));
    }

    #[test]
    fn bad_weather_loses_doubles_and_delays() {
        let mut net = net();
        net.set_weather(Weather { loss: 300, doubled: 300, late: 300, tail_ms: 9_000 }, 0);
        let fates: Vec<Fate> = (0..500).map(|_| net.send(WAY)).collect();
        assert!(fates.contains(&Fate::Lost));
        assert!(fates.iter().any(|fate| matches!(fate, Fate::Arrives(_, Some(_)))));
        assert!(fates.iter().any(|fate| matches!(fate, Fate::Arrives(late, _) if *late > 8_000)));
        net.set_weather(Weather::default(), 50);
        assert!(!net.was_good_since(WAY, 60) && net.was_good_since(WAY, 9_050));
    }
}
