//! Every rule of checking, good and bad.
//!
//! Rows change one thing of a draft that is accepted, and name the places that must be at fault.
#![expect(clippy::too_many_lines, reason = "a table has a row for every rule")]

mod compose;
mod container;
mod dropped;
mod generator;
mod nasty;
mod placement;
mod property;
mod request;
mod revision;
mod vm;
mod volume;

use super::super::draft::{ComposeDraft, ContainerDraft, DiskDraft, Draft, NetworkDraft, VmDraft};
use super::super::{ComposeSpec, ContainerSpec, Kind, Spec, VmSpec};
use super::check;

/// One row: what is changed, and which paths must be at fault, in any order. No path: accepted.
type Row<'a, T> = (&'a str, fn(&mut T), &'a [&'a str]);

fn container_draft() -> Draft {
    let body = ContainerDraft { image: "nginx:1.27".into(), ..ContainerDraft::default() };
    Draft { workload_type: "container".into(), container: Some(body), ..Draft::default() }
}

fn compose_draft() -> Draft {
    let body = ComposeDraft {
        inline_yaml: "services: {web: {image: nginx}}\n".into(),
        ..ComposeDraft::default()
    };
    Draft { workload_type: "compose".into(), compose: Some(body), ..Draft::default() }
}

fn vm_draft() -> Draft {
    let body = VmDraft {
        vcpus: 2,
        memory_mb: 2048,
        disks: vec![DiskDraft { size_gb: 10, ..DiskDraft::default() }],
        networks: vec![NetworkDraft { bridge: "br0".into(), ..NetworkDraft::default() }],
        ..VmDraft::default()
    };
    Draft { workload_type: "vm".into(), vm: Some(body), ..Draft::default() }
}

/// Paths at fault, each once, in order.
fn paths_at_fault(draft: &Draft) -> Vec<String> {
    match check(draft) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.listed().iter().map(|fault| fault.path.clone()).collect(),
    }
}

/// Runs rows against a draft, changing the part that `part` finds.
fn run<T>(base: fn() -> Draft, part: fn(&mut Draft) -> &mut T, rows: &[Row<'_, T>]) {
    assert_eq!(check(&base()).map(|_| ()), Ok(()), "the draft the rows start from");
    for (name, change, expected) in rows {
        let mut draft = base();
        change(part(&mut draft));
        let mut found = paths_at_fault(&draft);
        let mut expected: Vec<_> = expected.iter().map(|path| (*path).to_owned()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{name}: {}", problems(&draft));
    }
}

fn problems(draft: &Draft) -> String {
    check(draft).map_or_else(|faults| faults.to_string(), |_| "accepted".into())
}

fn container(draft: &mut Draft) -> &mut ContainerDraft {
    draft.container.as_mut().expect("a container")
}

fn compose(draft: &mut Draft) -> &mut ComposeDraft {
    draft.compose.as_mut().expect("a stack")
}

fn vm(draft: &mut Draft) -> &mut VmDraft {
    draft.vm.as_mut().expect("a VM")
}

fn whole(draft: &mut Draft) -> &mut Draft {
    draft
}

fn accepted(draft: &Draft) -> Spec {
    check(draft).unwrap_or_else(|faults| panic!("refused: {faults}"))
}

fn container_spec(draft: &Draft) -> ContainerSpec {
    match accepted(draft).kind {
        Kind::Container(container) => container,
        Kind::Compose(_) | Kind::Vm(_) => panic!("not a container"),
    }
}

fn compose_spec(draft: &Draft) -> ComposeSpec {
    match accepted(draft).kind {
        Kind::Compose(compose) => compose,
        Kind::Container(_) | Kind::Vm(_) => panic!("not a stack"),
    }
}

fn vm_spec(draft: &Draft) -> VmSpec {
    match accepted(draft).kind {
        Kind::Vm(vm) => vm,
        Kind::Container(_) | Kind::Compose(_) => panic!("not a VM"),
    }
}

/// A text of `bytes` bytes.
fn long(bytes: usize) -> String {
    "a".repeat(bytes)
}
