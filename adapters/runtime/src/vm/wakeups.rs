//! Events of libvirt, as hints to look again.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use persys_libvirt::Heard;
use persys_model::id::WorkloadId;

use crate::inside::{Wakeup, Wakeups};

use super::Machines;

impl Wakeups for Machines {
    fn wakeups(&self) -> BoxStream<'static, Wakeup> {
        let prefix = self.settings.name_prefix.clone();
        let hints = self.client.changes().filter_map(move |heard| {
            let hint = hint(&prefix, &heard);
            async move { hint }
        });
        hints.boxed()
    }
}

/// Whose machine it is follows from its name alone: one that is gone tells no more. A hint about
/// what is not ours costs one look.
fn hint(prefix: &str, heard: &Heard) -> Option<Wakeup> {
    match heard {
        Heard::Everything => Some(Wakeup::Everything),
        Heard::Change(change) => {
            let workload = change.domain.name.strip_prefix(prefix)?;
            WorkloadId::new(workload).ok().map(Wakeup::Workload)
        }
    }
}

#[cfg(test)]
mod tests {
    use persys_libvirt::{Change, Domain};

    use super::*;

    #[test]
    fn only_names_of_ours_are_hints() {
        let heard = |name: &str| {
            let domain = Domain { name: name.to_owned(), uuid: [0; 16], id: 1 };
            hint("persys-", &Heard::Change(Change { domain, event: 5, detail: 0 }))
        };
        assert_eq!(heard("persys-web"), Some(Wakeup::Workload(WorkloadId::fixed("web"))));
        assert_eq!(heard("web"), None);
        assert_eq!(heard("persys-../x"), None);
        assert_eq!(hint("persys-", &Heard::Everything), Some(Wakeup::Everything));
    }
}
