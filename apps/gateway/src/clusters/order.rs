//! Which scheduler of a cluster is asked, and in which order. Nothing here asks anybody.

/// Which one is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The one that is said to lead; any of them passes on what only the leader can answer.
    LeaderOnly,
    /// The same one for the same session.
    Sticky,
    /// The same one for the same workload.
    Shard,
}

impl Routing {
    /// The strategy of this name; nothing means the first of them.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "leader-only" => Some(Self::LeaderOnly),
            "sticky" => Some(Self::Sticky),
            "shard" => Some(Self::Shard),
            _ => None,
        }
    }

    /// What of a request decides whom it goes to; nothing where all go the same way.
    pub fn told_apart_by(self, keys: &Keys) -> &str {
        match self {
            Self::LeaderOnly => "",
            Self::Sticky => &keys.session,
            Self::Shard => &keys.workload,
        }
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::LeaderOnly => "leader-only",
            Self::Sticky => "sticky",
            Self::Shard => "shard",
        }
    }
}

/// What a request is told apart by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// Of whom it is.
    pub session: String,
    /// What it is about.
    pub workload: String,
}

/// Those of a request that nothing tells apart.
pub static NO_KEYS: Keys = Keys { session: String::new(), workload: String::new() };

/// The places of `schedulers`, given as (id, leads), in the order they are asked.
pub fn order(routing: Routing, schedulers: &[(&str, bool)], keys: &Keys) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..schedulers.len()).collect();
    sorted.sort_by_key(|at| schedulers.get(*at).map(|(id, _)| *id));
    let key = match routing {
        Routing::LeaderOnly => {
            sorted.sort_by_key(|at| schedulers.get(*at).is_none_or(|(_, leads)| !leads));
            return sorted;
        }
        Routing::Sticky => &keys.session,
        Routing::Shard => &keys.workload,
    };
    if !sorted.is_empty() {
        let count = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
        let turns = usize::try_from(fnv32a(key.as_bytes()) % count).unwrap_or(0);
        sorted.rotate_left(turns);
    }
    sorted
}

/// The hash by which existing gateways choose, so that both choose the same.
fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: [(&str, bool); 3] = [("c", false), ("a", false), ("b", true)];

    fn asked(routing: Routing, session: &str, workload: &str) -> Vec<&'static str> {
        let keys = Keys { session: session.to_owned(), workload: workload.to_owned() };
        order(routing, &THREE, &keys).into_iter().map(|at| THREE[at].0).collect()
    }

    #[test]
    fn the_one_that_leads_is_asked_first_and_then_the_rest() {
        assert_eq!(asked(Routing::LeaderOnly, "s", "w"), ["b", "a", "c"]);
        assert!(order(Routing::Shard, &[], &Keys::default()).is_empty());
    }

    #[test]
    fn the_same_key_asks_the_same_and_keys_are_spread() {
        assert_eq!(fnv32a(b"a"), 0xe40c_292c);
        for routing in [Routing::Sticky, Routing::Shard] {
            let mut firsts = std::collections::BTreeMap::<_, u32>::new();
            for nth in 0..300 {
                let key = format!("key-{nth}");
                let all = asked(routing, &key, &key);
                assert_eq!(all, asked(routing, &key, &key));
                assert_eq!(all.len(), 3);
                *firsts.entry(all[0]).or_default() += 1;
            }
            assert!(firsts.len() == 3 && firsts.values().all(|count| *count > 60), "{firsts:?}");
        }
        assert_eq!(asked(Routing::Sticky, "s", "x"), asked(Routing::Sticky, "s", "y"));
        assert_eq!(asked(Routing::Shard, "x", "w"), asked(Routing::Shard, "y", "w"));
    }
}
