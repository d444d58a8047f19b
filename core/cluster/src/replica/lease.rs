//! The leadership of one process: asked for, kept alive, and who has it otherwise.

use std::sync::Arc;

use persys_model::time::{Millis, Now};
use persys_model::zoo::Bug;

use super::{RETRY_MS, Replica, Role};
use crate::store::{HighWater, StoreCall, StoreReply};

/// So many renewals in a row without an answer, and the store is away: an idle leader has no other
/// way to notice.
const MOST_UNHEARD: u32 = 2;
/// Leases after which whoever leads has surely heard its agents.
const SETTLED_LEASES: u64 = 3;

impl Replica {
    /// Who leads, as far as this process knows: the text of a candidate, perhaps its own. What was
    /// heard is believed for as long as a leadership lasts without renewal.
    pub fn leader(&self, now: Now) -> Option<&Arc<str>> {
        match &self.role {
            Role::Leading(_) => Some(&self.candidate),
            Role::Follower => {
                let (candidate, at) = self.heard_of.as_ref()?;
                (now.mono.since(*at) < self.settings.leader_ttl_ms).then_some(candidate)
            }
        }
    }

    /// Campaigns or renews when it is time.
    pub(super) fn see_to_lease(&mut self, now: Now) {
        if self.lease_call.is_some() || now.mono < self.lease_due {
            return;
        }
        let call = match &mut self.role {
            Role::Follower => StoreCall::Campaign {
                candidate: Arc::clone(&self.candidate),
                ttl_ms: self.settings.leader_ttl_ms,
            },
            Role::Leading(leading) => {
                leading.asked_at = leading.durable_head();
                StoreCall::Renew { term: leading.term }
            }
        };
        let id = self.call(call);
        self.lease_call = Some((id, now.mono));
    }

    pub(super) fn lease_replied(&mut self, reply: StoreReply, sent_at: Millis, now: Now) {
        let ttl = self.settings.leader_ttl_ms;
        self.lease_answered_at = now.mono;
        self.lease_due = now.mono.plus(self.settings.campaign_ms.min(ttl / 3));
        // Three quarters leave room for clocks that run a tenth apart, measured from the sending.
        let valid_until = sent_at.plus(ttl * 3 / 4);
        match (reply, &mut self.role) {
            (StoreReply::Won(term), Role::Follower) => {
                self.lease_due = self.renewal_due(now);
                self.lead(term, valid_until, now);
            }
            (StoreReply::HeldBy(holder, head), Role::Follower) => {
                self.heard_of = Some((Arc::clone(&holder), now.mono));
                self.learn(head, now);
                if self.settings.zoo.has(Bug::LeaderIdByHostName)
                    && host_of(&holder) == host_of(&self.candidate)
                {
                    // "I lead already": nobody renews, and this process never campaigns again.
                    self.lease_due = Millis(u64::MAX);
                }
            }
            (StoreReply::Renewed(head), Role::Leading(leading)) => {
                leading.valid_until = valid_until;
                leading.unheard = 0;
                let went_back = leading.went_back(head.as_ref());
                self.lease_due = self.renewal_due(now);
                if went_back {
                    self.lose_store("the store holds an older state than it had", now);
                }
            }
            (StoreReply::Deposed, Role::Leading(_)) => self.step_down(now),
            (StoreReply::Unavailable | StoreReply::Unknown, role) => {
                self.lease_due = now.mono.plus(RETRY_MS);
                if let Role::Leading(leading) = role {
                    leading.unheard = leading.unheard.saturating_add(1);
                    let away = leading.unheard >= MOST_UNHEARD || now.mono >= leading.valid_until;
                    // What is being read tells more than a renewal, and is not to be disturbed.
                    if away && !leading.reads() {
                        self.lose_store("the leader lease cannot be renewed", now);
                    }
                }
            }
            (_, Role::Follower | Role::Leading(_)) => {}
        }
    }

    /// Asks the store at once who leads, but not more often than anything is asked again.
    pub(super) fn ask_sooner(&mut self, now: Now) {
        if let Role::Follower = self.role {
            let earliest = self.lease_answered_at.plus(RETRY_MS);
            self.lease_due = self.lease_due.min(earliest.max(now.mono));
        }
    }

    fn renewal_due(&self, now: Now) -> Millis {
        now.mono.plus(self.settings.renew_ms.min(self.settings.leader_ttl_ms / 3))
    }

    /// A follower hears how far the store has come. What contradicts its own memory it does not
    /// take: should it lead one day, an operator is to look at that.
    fn learn(&mut self, head: Option<HighWater>, now: Now) {
        let Some(head) = head else { return };
        let news = self.known.as_ref().is_none_or(|known| {
            known.cluster == head.cluster
                && (known.incarnation, known.seq) < (head.incarnation, head.seq)
        });
        // A leader that has just started may not have heard its agents yet: its head confirms nothing.
        let since = *self.follows_since.get_or_insert(now.mono);
        let settled = self.settings.listen_ms.max(self.settings.lease_ms) * SETTLED_LEASES;
        let agrees = self.known.as_ref().is_some_and(|known| {
            known.cluster == head.cluster
                && (known.incarnation, known.seq) <= (head.incarnation, head.seq)
        });
        self.fresh &= !((news || agrees) && now.mono.since(since) >= settled);
        if news {
            self.known = Some(head.clone());
            self.effects.remember = Some(head);
        }
    }
}

fn host_of(candidate: &str) -> &str {
    candidate.split('#').next().unwrap_or_default()
}
