//! The order in which services end, and the time that takes: what depends on others ends first.

use std::collections::{BTreeMap, BTreeSet};

use crate::Document;

/// Services in the order they end: none of a rank is needed by one of the same or a later rank. Those
/// that need each other in a circle end together. `after` names what each service depends on.
#[must_use]
pub fn ranks<'a, I>(after: impl IntoIterator<Item = (&'a str, I)>) -> Vec<Vec<&'a str>>
where
    I: IntoIterator<Item = &'a str>,
{
    let mut left: BTreeMap<&str, BTreeSet<&str>> =
        after.into_iter().map(|(name, needs)| (name, needs.into_iter().collect())).collect();
    let mut ranks = Vec::new();
    while !left.is_empty() {
        let needed: BTreeSet<&str> = left.values().flatten().copied().collect();
        let free: Vec<&str> = left.keys().copied().filter(|name| !needed.contains(name)).collect();
        let free = if free.is_empty() { left.keys().copied().collect() } else { free };
        for name in &free {
            left.remove(name);
        }
        ranks.push(free);
    }
    ranks
}

impl Document {
    /// Longest time in milliseconds in which all of it ends by itself when it is stopped: rank after
    /// rank, each as long as its slowest service may take. A service that names no grace has
    /// `default_ms`.
    #[must_use]
    pub fn stop_grace_ms(&self, default_ms: u64) -> u64 {
        let needs = self
            .services()
            .map(|service| (service.name.as_str(), service.depends_on.keys().map(String::as_str)));
        let grace = |name: &&str| {
            let service = self.service(name);
            service.and_then(|service| service.process.stop_grace_ms).unwrap_or(default_ms)
        };
        let slowest = ranks(needs).into_iter().map(|rank| rank.iter().map(grace).max());
        slowest.flatten().fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(services: &[(&'static str, &[&'static str])]) -> Vec<Vec<&'static str>> {
        ranks(services.iter().map(|(name, after)| (*name, after.iter().copied())))
    }

    #[test]
    fn what_depends_on_others_ends_first() {
        let shop: [(&str, &[&str]); 4] =
            [("api", &["db", "cache"]), ("cache", &[]), ("db", &[]), ("web", &["api"])];
        assert_eq!(order(&shop), [vec!["web"], vec!["api"], vec!["cache", "db"]]);
        assert_eq!(order(&[("a", &["b"]), ("b", &["a"])]), [vec!["a", "b"]], "a circle");
        assert_eq!(
            order(&[("web", &["gone"])]),
            [vec!["web"]],
            "what is not there is not waited for"
        );
    }

    #[test]
    fn a_stack_takes_as_long_as_its_slowest_services_one_after_the_other() {
        let grace = |text: &str| {
            let reading = crate::read(text, &BTreeMap::new());
            reading.document.unwrap().stop_grace_ms(10_000)
        };
        let chain = "services:\n  db: {image: a, stop_grace_period: 90s}\n  \
                     app: {image: a, stop_grace_period: 30s, depends_on: [db]}\n  log: {image: a}\n";
        assert_eq!(grace(chain), 120_000);
        assert_eq!(grace("services:\n  web: {image: a}\n  log: {image: a}\n"), 10_000);
        assert_eq!(grace("services:\n  web: {image: a, stop_grace_period: 1s}\n"), 1_000);
    }
}
