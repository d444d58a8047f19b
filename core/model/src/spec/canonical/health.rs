//! Health checks in the name of a content.

use super::Fold;
use crate::spec::health::{Check, Probe, Ready};

impl Fold {
    pub(super) fn ready(&mut self, ready: &Ready) {
        let check = match ready {
            Ready::Disabled => return self.tag(0),
            Ready::Check(check) => check,
        };
        let Check { probe, interval_ms, timeout_ms, start_period_ms, retries } = &**check;
        match probe {
            Probe::Http { port, path } => {
                self.tag(1);
                self.number(*port);
                self.text(path);
            }
            Probe::Tcp { port } => {
                self.tag(2);
                self.number(*port);
            }
            Probe::Exec(words) => {
                self.tag(3);
                self.words(words);
            }
        }
        self.number(*interval_ms);
        self.number(*timeout_ms);
        self.number(*start_period_ms);
        self.number(*retries);
    }
}
