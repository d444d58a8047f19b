//! Secrets in the name of a content.

use super::Fold;
use crate::secret::{SecretSeen, SecretUse};

impl Fold {
    pub(super) fn secret(&mut self, SecretUse { secret, seen }: &SecretUse) {
        self.text(secret.as_str());
        match seen {
            SecretSeen::Env(name) => {
                self.tag(1);
                self.text(name);
            }
            SecretSeen::File { path, mode, uid, gid, signal } => {
                // Without a signal it is the tag that files had before there were any.
                self.tag(if signal.is_some() { 3 } else { 2 });
                self.text(path);
                self.number(*mode);
                self.number(*uid);
                self.number(*gid);
                if let Some(signal) = signal {
                    self.text(signal.word());
                }
            }
        }
    }
}
