//! Rules for placement.

use super::*;
use crate::labels::Rule;
use crate::spec::draft::{ConstraintDraft, PlacementDraft, TolerationDraft};
use crate::spec::{Class, OnNodeLoss, Strategy};

fn constraint(key: &str, operator: &str, values: &[&str]) -> ConstraintDraft {
    ConstraintDraft {
        key: key.into(),
        operator: operator.into(),
        values: values.iter().map(|value| (*value).into()).collect(),
    }
}

fn toleration(key: &str, value: &str, any_value: bool) -> TolerationDraft {
    TolerationDraft { key: key.into(), value: value.into(), any_value }
}

fn part(draft: &mut Draft) -> &mut PlacementDraft {
    &mut draft.placement
}

#[test]
fn words_are_kept() {
    let mut draft = container_draft();
    draft.placement = PlacementDraft {
        constraints: vec![
            constraint("gpu", "exists", &[]),
            constraint("old", "absent", &[]),
            constraint("disk", "IN", &["ssd", "nvme", "ssd"]),
            constraint("zone", "not-in", &["a"]),
        ],
        tolerations: vec![toleration("x", "", true), toleration("y", "", false)],
        strategy: "BinPack".into(),
        class: "exclusive".into(),
        on_node_loss: "stay".into(),
    };
    let placement = accepted(&draft).placement;
    assert_eq!(placement.strategy, Strategy::BinPack);
    assert_eq!(placement.class, Class::Exclusive);
    assert_eq!(placement.on_node_loss, OnNodeLoss::Stay);
    assert!(matches!(&placement.constraints[2].rule, Rule::In(values) if values.len() == 2));
    assert_eq!(placement.tolerations[0].value, None);
    assert_eq!(placement.tolerations[1].value.as_deref(), Some(""));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    run(
        container_draft,
        part,
        &[
            ("strategy", |p| p.strategy = "random".into(), &["spec.placement.strategy"]),
            ("class", |p| p.class = "best-effort".into(), &["spec.placement.class"]),
            ("loss", |p| p.on_node_loss = "migrate".into(), &["spec.placement.on_node_loss"]),
            (
                "no operator",
                |p| p.constraints = vec![constraint("a", "", &["x"])],
                &["spec.placement.constraints[0].operator"],
            ),
            (
                "unknown operator",
                |p| p.constraints = vec![constraint("a", "gt", &["1"])],
                &["spec.placement.constraints[0].operator"],
            ),
            (
                "exists with values",
                |p| p.constraints = vec![constraint("a", "exists", &["x"])],
                &["spec.placement.constraints[0].values"],
            ),
            (
                "in without values",
                |p| p.constraints = vec![constraint("a", "in", &[])],
                &["spec.placement.constraints[0].values"],
            ),
            (
                "key and value",
                |p| p.constraints = vec![constraint("", "in", &["\u{7}"])],
                &["spec.placement.constraints[0].key", "spec.placement.constraints[0].values[0]"],
            ),
            (
                "there and not there",
                |p| {
                    p.constraints =
                        vec![constraint("a", "exists", &[]), constraint("a", "absent", &[])];
                },
                &["spec.placement.constraints[1]"],
            ),
            (
                "in and not in",
                |p| {
                    p.constraints =
                        vec![constraint("a", "not-in", &["x"]), constraint("a", "in", &["x"])];
                },
                &["spec.placement.constraints[1]"],
            ),
            (
                "two different",
                |p| {
                    p.constraints =
                        vec![constraint("a", "in", &["x"]), constraint("a", "in", &["y"])];
                },
                &["spec.placement.constraints[1]"],
            ),
            (
                "narrowed",
                |p| {
                    p.constraints =
                        vec![constraint("a", "in", &["x", "y"]), constraint("a", "in", &["y"])];
                },
                &[],
            ),
            (
                "too many",
                |p| p.constraints = vec![constraint("a", "exists", &[]); 17],
                &["spec.placement.constraints"],
            ),
            (
                "too many values",
                |p| p.constraints = vec![constraint("a", "in", &["x"; 33])],
                &["spec.placement.constraints[0].values"],
            ),
            (
                "value and any",
                |p| p.tolerations = vec![toleration("a", "x", true)],
                &["spec.placement.tolerations[0].value"],
            ),
            (
                "toleration key",
                |p| p.tolerations = vec![toleration("", "x", false)],
                &["spec.placement.tolerations[0].key"],
            ),
        ],
    );
}
