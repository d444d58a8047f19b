//! Rules for choosing a node.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::labels::{Constraint, Rule, Toleration};
use persys_model::spec::{Class, OnNodeLoss, Placement, Strategy};
use serde::{Deserialize, Serialize};

use super::super::mirror;

#[derive(Serialize, Deserialize)]
pub(super) struct PlacementShape {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    constraints: Vec<ConstraintShape>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tolerations: Vec<TolerationShape>,
    strategy: StrategyShape,
    class: ClassShape,
    on_node_loss: OnNodeLossShape,
}

#[derive(Serialize, Deserialize)]
struct ConstraintShape {
    key: Arc<str>,
    rule: RuleShape,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RuleShape {
    Exists,
    Absent,
    In(BTreeSet<Arc<str>>),
    NotIn(BTreeSet<Arc<str>>),
}

#[derive(Serialize, Deserialize)]
struct TolerationShape {
    key: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Arc<str>>,
}

mirror!(StrategyShape of Strategy { Spread, BinPack });
mirror!(ClassShape of Class { Default, Exclusive });
mirror!(OnNodeLossShape of OnNodeLoss { Auto, Move, Stay });

impl From<&Placement> for PlacementShape {
    fn from(placement: &Placement) -> Self {
        let Placement { constraints, tolerations, strategy, class, on_node_loss } = placement;
        let constraints = constraints.iter().map(|Constraint { key, rule }| ConstraintShape {
            key: Arc::clone(key),
            rule: rule.into(),
        });
        let tolerations = tolerations.iter().map(|Toleration { key, value }| TolerationShape {
            key: Arc::clone(key),
            value: value.clone(),
        });
        Self {
            constraints: constraints.collect(),
            tolerations: tolerations.collect(),
            strategy: (*strategy).into(),
            class: (*class).into(),
            on_node_loss: (*on_node_loss).into(),
        }
    }
}

impl From<PlacementShape> for Placement {
    fn from(shape: PlacementShape) -> Self {
        let constraints = shape
            .constraints
            .into_iter()
            .map(|ConstraintShape { key, rule }| Constraint { key, rule: rule.into() });
        let tolerations = shape
            .tolerations
            .into_iter()
            .map(|TolerationShape { key, value }| Toleration { key, value });
        Self {
            constraints: constraints.collect(),
            tolerations: tolerations.collect(),
            strategy: shape.strategy.into(),
            class: shape.class.into(),
            on_node_loss: shape.on_node_loss.into(),
        }
    }
}

impl From<&Rule> for RuleShape {
    fn from(rule: &Rule) -> Self {
        match rule {
            Rule::Exists => Self::Exists,
            Rule::Absent => Self::Absent,
            Rule::In(values) => Self::In(values.clone()),
            Rule::NotIn(values) => Self::NotIn(values.clone()),
        }
    }
}

impl From<RuleShape> for Rule {
    fn from(rule: RuleShape) -> Self {
        match rule {
            RuleShape::Exists => Self::Exists,
            RuleShape::Absent => Self::Absent,
            RuleShape::In(values) => Self::In(values),
            RuleShape::NotIn(values) => Self::NotIn(values),
        }
    }
}
