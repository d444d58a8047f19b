//! Orders to delete data, and decisions that want it.

use std::sync::Arc;

use persys_model::command::{Answer, Command, Refusal};
use persys_model::failure::{Failure, FailureReason};
use persys_model::id::VolumeName;
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use persys_model::spec::{ContainerSpec, Kind, Spec};
use persys_model::token::Epoch;
use persys_model::volume::VolumeKey;

use super::rig::{Rig, apply_spec, plain, remove, seen};
use crate::effects::Verb;
use crate::input::{Existing, Outcome};
use crate::ledger::Ledger;

fn disk() -> ManagedVolume {
    ManagedVolume {
        name: VolumeName::new("data").unwrap(),
        driver: VolumeDriver::Local,
        size_gib: 1,
        access: AccessMode::ReadWriteOnce,
        fs_type: Arc::from(""),
        mount_path: Arc::from("/data"),
        read_only: false,
        retain: true,
    }
}

fn with_disk() -> Arc<Spec> {
    let container = ContainerSpec {
        image: Arc::from("app"),
        managed_volumes: vec![disk()],
        ..ContainerSpec::default()
    };
    Arc::new(Spec { kind: Kind::Container(container), ..(*plain()).clone() })
}

fn delete_disk(epoch: u64) -> Command {
    Command { workload: VolumeKey::of(&disk()).order_id(), ..remove(epoch) }
}

#[test]
fn a_decision_that_wants_data_makes_an_earlier_order_to_delete_it_void() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    let deletion = rig.order(delete_disk(5));
    let in_use = || Failure::new(FailureReason::StorageError, "it is in use");
    assert!(matches!(rig.finish(Outcome::Failed(in_use())), Verb::Remove { .. }));
    rig.observe(Vec::new());
    rig.order(apply_spec(6, "a", with_disk()));
    assert_eq!(rig.answer(deletion), Some(&Answer::Refused(Refusal::OldEpoch { held: Epoch(6) })));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Start { .. }));
    rig.observe(vec![seen(6, "a", Existing::Running)]);
    rig.wait(60_000);
    assert!(rig.verbs.is_empty(), "it is tried no more: {:?}", rig.verbs);
    assert_eq!(rig.disk.intents.len(), 1, "not even in the next life");
    let mut rig = rig.reborn(vec![seen(6, "a", Existing::Running)]);
    rig.wait(60_000);
    assert!(rig.verbs.is_empty());
}

#[test]
fn an_order_to_delete_data_that_comes_after_a_newer_decision_wants_it_is_refused() {
    let mut rig = Rig::running(6, "a", &with_disk());
    let late = rig.order(delete_disk(5));
    assert_eq!(rig.answer(late), Some(&Answer::Refused(Refusal::OldEpoch { held: Epoch(6) })));
    assert!(rig.verbs.is_empty());
    // The workload is to go as well: then nobody wants the data.
    rig.order(remove(7));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Remove { .. }));
    rig.order(delete_disk(8));
    assert!(matches!(rig.finish(Outcome::Done), Verb::Remove { purge: true, .. }));
}

/// What was ordered in an earlier life may have been given up since, with the node itself.
#[test]
fn data_is_deleted_only_by_a_word_of_this_session() {
    let mut rig = Rig::alive(Ledger::default(), Vec::new());
    rig.order(delete_disk(5));
    let in_use = Failure::new(FailureReason::StorageError, "it is in use");
    assert!(matches!(rig.finish(Outcome::Failed(in_use)), Verb::Remove { .. }));
    let mut rig = rig.reborn(Vec::new());
    rig.wait(60_000);
    assert!(rig.verbs.is_empty(), "nobody named it: {:?}", rig.verbs);
    let session = rig.agent.session().unwrap();
    rig.order(Command { session, ..delete_disk(5) });
    assert!(matches!(rig.finish(Outcome::Done), Verb::Remove { purge: true, .. }));
}
