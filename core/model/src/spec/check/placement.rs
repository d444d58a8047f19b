//! Rules for choosing a node.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::at::At;
use super::limits::{CONSTRAINT_VALUES, NODE_LABEL_VALUE_BYTES, PLACEMENT_RULES};
use super::text::{count, label_key, length, shown, word};
use crate::labels::{Constraint, Rule, Toleration};
use crate::spec::draft::{ConstraintDraft, PlacementDraft, TolerationDraft};
use crate::spec::{Class, OnNodeLoss, Placement, Strategy};

const STRATEGIES: &[(&str, Strategy)] =
    &[("", Strategy::Spread), ("spread", Strategy::Spread), ("binpack", Strategy::BinPack)];
const CLASSES: &[(&str, Class)] =
    &[("", Class::Default), ("default", Class::Default), ("exclusive", Class::Exclusive)];
const LOSSES: &[(&str, OnNodeLoss)] = &[
    ("", OnNodeLoss::Auto),
    ("auto", OnNodeLoss::Auto),
    ("move", OnNodeLoss::Move),
    ("stay", OnNodeLoss::Stay),
];

#[derive(Clone, Copy)]
enum Operator {
    Exists,
    Absent,
    In,
    NotIn,
}

const OPERATORS: &[(&str, Operator)] = &[
    ("exists", Operator::Exists),
    ("absent", Operator::Absent),
    ("in", Operator::In),
    ("not-in", Operator::NotIn),
];

pub(super) fn placement(at: &At<'_>, draft: &PlacementDraft) -> Option<Placement> {
    let constraints = constraints(&at.field("constraints"), &draft.constraints);
    let tolerations = tolerations(&at.field("tolerations"), &draft.tolerations);
    let strategy = word(&at.field("strategy"), &draft.strategy, STRATEGIES);
    let class = word(&at.field("class"), &draft.class, CLASSES);
    let on_node_loss = word(&at.field("on_node_loss"), &draft.on_node_loss, LOSSES);
    Some(Placement {
        constraints: constraints?,
        tolerations: tolerations?,
        strategy: strategy?,
        class: class?,
        on_node_loss: on_node_loss?,
    })
}

fn constraints(at: &At<'_>, drafts: &[ConstraintDraft]) -> Option<Vec<Constraint>> {
    count(at, drafts.len(), PLACEMENT_RULES)?;
    let checked: Vec<_> =
        drafts.iter().enumerate().map(|(nth, draft)| constraint(&at.index(nth), draft)).collect();
    for (nth, one) in checked.iter().enumerate() {
        let earlier = checked.iter().take(nth).flatten();
        let clash = one.as_ref().and_then(|one| earlier.clone().find(|other| excludes(one, other)));
        if let Some(clash) = clash {
            at.index(nth)
                .fault(format!("no node can meet both this and \"{}\"", shown(&clash.to_string())));
        }
    }
    checked.into_iter().collect()
}

fn constraint(at: &At<'_>, draft: &ConstraintDraft) -> Option<Constraint> {
    let key = label_key(&at.field("key"), &draft.key);
    let operator = word(&at.field("operator"), &draft.operator, OPERATORS);
    let values = values(&at.field("values"), &draft.values);
    let (operator, values) = (operator?, values?);
    let rule = match operator {
        Operator::Exists | Operator::Absent if !values.is_empty() => {
            return at.field("values").refuse("must be empty for exists and absent");
        }
        Operator::In | Operator::NotIn if values.is_empty() => {
            return at.field("values").refuse("must be given for in and not-in");
        }
        Operator::Exists => Rule::Exists,
        Operator::Absent => Rule::Absent,
        Operator::In => Rule::In(values),
        Operator::NotIn => Rule::NotIn(values),
    };
    Some(Constraint { key: key?, rule })
}

fn values(at: &At<'_>, given: &[String]) -> Option<BTreeSet<Arc<str>>> {
    count(at, given.len(), CONSTRAINT_VALUES)?;
    let mut values = Vec::with_capacity(given.len());
    for (nth, text) in given.iter().enumerate() {
        values.push(label_value(&at.index(nth), text));
    }
    values.into_iter().collect()
}

fn label_value(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    length(at, text.len(), NODE_LABEL_VALUE_BYTES)?;
    if text.chars().any(char::is_control) {
        return at.refuse("has a control character in it");
    }
    Some(Arc::from(text))
}

/// Whether no value of the one label both speak of could satisfy both.
fn excludes(one: &Constraint, other: &Constraint) -> bool {
    if one.key != other.key {
        return false;
    }
    match (&one.rule, &other.rule) {
        (Rule::Absent, Rule::Exists | Rule::In(_)) | (Rule::Exists | Rule::In(_), Rule::Absent) => {
            true
        }
        (Rule::In(a), Rule::In(b)) => a.is_disjoint(b),
        (Rule::In(wanted), Rule::NotIn(refused)) | (Rule::NotIn(refused), Rule::In(wanted)) => {
            wanted.is_subset(refused)
        }
        (Rule::Exists | Rule::NotIn(_), Rule::Exists | Rule::NotIn(_))
        | (Rule::Exists, Rule::In(_))
        | (Rule::In(_), Rule::Exists)
        | (Rule::Absent, Rule::Absent | Rule::NotIn(_))
        | (Rule::NotIn(_), Rule::Absent) => false,
    }
}

fn tolerations(at: &At<'_>, drafts: &[TolerationDraft]) -> Option<Vec<Toleration>> {
    count(at, drafts.len(), PLACEMENT_RULES)?;
    let mut tolerations = Vec::with_capacity(drafts.len());
    for (nth, draft) in drafts.iter().enumerate() {
        tolerations.push(toleration(&at.index(nth), draft));
    }
    tolerations.into_iter().collect()
}

fn toleration(at: &At<'_>, draft: &TolerationDraft) -> Option<Toleration> {
    let key = label_key(&at.field("key"), &draft.key);
    let value = label_value(&at.field("value"), &draft.value);
    if draft.any_value && !draft.value.is_empty() {
        at.field("value").fault("contradicts any_value; give one");
    }
    Some(Toleration { key: key?, value: if draft.any_value { None } else { Some(value?) } })
}
