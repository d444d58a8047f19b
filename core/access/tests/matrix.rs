//! The table, held against a list that was written by hand: every method for everybody.

#![allow(clippy::expect_used, reason = "a test may stop")]

use std::collections::{BTreeMap, BTreeSet};

use persys_access::{Caller, Holding, Role, TABLE, judge};
use persys_model::entry::Scope;
use persys_model::id::NamespaceName;

/// Who may call what, as it was written by hand.
fn expected() -> BTreeMap<String, &'static str> {
    let lines = include_str!("expected.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').expect("a method and who may call it"))
        .map(|(method, who)| (format!("/{method}"), who.trim()))
        .collect()
}

fn in_one(role: Role) -> Caller {
    let scope = Scope::Namespaces(BTreeSet::from([NamespaceName::fixed("web")]));
    Caller { holdings: vec![Holding { role, scope }] }
}

/// A role that counts in no namespace is none.
fn nowhere(role: Role) -> Caller {
    let scope = Scope::Namespaces(BTreeSet::new());
    Caller { holdings: vec![Holding { role, scope }] }
}

#[test]
fn the_table_lets_through_exactly_whom_the_list_says() {
    let expected = expected();
    let rows: BTreeSet<_> = TABLE.iter().map(|(method, ..)| (*method).to_owned()).collect();
    let named: BTreeSet<_> = expected.keys().cloned().collect();
    assert_eq!(rows, named, "the table and the list differ");
    let everybody = [
        ("V", Caller::with(Role::Viewer)),
        ("v", in_one(Role::Viewer)),
        ("O", Caller::with(Role::Operator)),
        ("o", in_one(Role::Operator)),
        ("A", Caller::with(Role::Admin)),
        ("a", in_one(Role::Admin)),
        ("U", Caller::with(Role::Auditor)),
        ("-", in_one(Role::Auditor)),
        ("G", Caller::with(Role::Agent)),
        ("-", Caller::with(Role::Scheduler)),
        ("-", Caller::with(Role::Gateway)),
        ("-", Caller::default()),
        ("-", nowhere(Role::Admin)),
        ("-", nowhere(Role::Operator)),
    ];
    let mut wrong = Vec::new();
    for (method, who) in &expected {
        for (letter, caller) in &everybody {
            // An auditor of one namespace is somebody, and audits nothing.
            let somebody = method.ends_with("/WhoAmI") && *caller == in_one(Role::Auditor);
            let may = *who == "*" || who.contains(letter) || somebody;
            if judge(method, caller).allowed != may {
                wrong.push(format!("{method}: {letter}: should be {may}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
