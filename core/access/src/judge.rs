//! Whether a caller may call a method.

use persys_model::entry::Scope;
use persys_model::id::NamespaceName;

use crate::role::Role;
use crate::table::{Row, Who, row};

/// A role that a caller holds, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// What they are.
    pub role: Role,
    /// Where.
    pub scope: Scope,
}

/// Somebody who calls, as far as it matters for what they may: what they hold, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// All they hold; nothing allows nothing.
    pub holdings: Vec<Holding>,
}

/// What was decided, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether the caller may.
    pub allowed: bool,
    /// By which rule.
    pub rule: Rule,
}

/// What a decision rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// No row of the table names the method.
    NoSuchMethod,
    /// This row does.
    Row(&'static Row),
}

impl Rule {
    /// The rule in words, for records and refusals.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoSuchMethod => "there is no such method",
            Self::Row((_, who, _)) => who.rule(),
        }
    }
}

impl Caller {
    /// Somebody in one role, everywhere.
    #[must_use]
    pub fn with(role: Role) -> Self {
        Self { holdings: vec![Holding { role, scope: Scope::Cluster }] }
    }

    /// Whether they may do what `who` may, to something in `namespace`.
    #[must_use]
    pub fn may_in(&self, who: Who, namespace: &NamespaceName) -> bool {
        self.holds(who, |scope| scope.covers(namespace))
    }

    /// Whether they may do what `who` may, everywhere.
    #[must_use]
    pub fn may_everywhere(&self, who: Who) -> bool {
        self.holds(who, |scope| *scope == Scope::Cluster)
    }

    fn holds(&self, who: Who, fits: impl Fn(&Scope) -> bool) -> bool {
        let roles = who.roles();
        self.holdings.iter().any(|holding| roles.contains(&holding.role) && fits(&holding.scope))
    }
}

/// Whether `caller` may call `method`. Where the row speaks of namespaces, the method itself looks at
/// what it touches.
#[must_use]
pub fn judge(method: &str, caller: &Caller) -> Decision {
    let Some(row) = row(method) else {
        return Decision { allowed: false, rule: Rule::NoSuchMethod };
    };
    let (_, who, _) = *row;
    let allowed = if who == Who::Everyone {
        true
    } else if who.everywhere() {
        caller.may_everywhere(who)
    } else {
        caller.holds(who, |scope| !scope.is_empty())
    };
    Decision { allowed, rule: Rule::Row(row) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LIST: &str = "/persys.control.v1.AgentControl/ListWorkloads";
    const DRAIN: &str = "/persys.control.v1.AgentControl/DrainNode";

    fn in_web(role: Role) -> Caller {
        let scope = Scope::Namespaces(BTreeSet::from([NamespaceName::fixed("web")]));
        Caller { holdings: vec![Holding { role, scope }] }
    }

    #[test]
    fn nothing_held_is_nothing_allowed() {
        let nobody = Caller::default();
        let nowhere = Scope::Namespaces(BTreeSet::new());
        let nowhere = Caller { holdings: vec![Holding { role: Role::Admin, scope: nowhere }] };
        for caller in [nobody, nowhere] {
            assert!(!judge(LIST, &caller).allowed);
            assert!(!judge(DRAIN, &caller).allowed);
        }
        let unknown = judge("/persys.control.v1.AgentControl/Format", &Caller::with(Role::Admin));
        assert_eq!(unknown, Decision { allowed: false, rule: Rule::NoSuchMethod });
    }

    #[test]
    fn a_role_in_a_namespace_is_none_outside() {
        let admin = in_web(Role::Admin);
        assert!(judge(LIST, &admin).allowed && !judge(DRAIN, &admin).allowed);
        assert!(admin.may_in(Who::Operators, &NamespaceName::fixed("web")));
        assert!(!admin.may_in(Who::Operators, &NamespaceName::fixed("db")));
        assert!(!in_web(Role::Viewer).may_in(Who::Operators, &NamespaceName::fixed("web")));
        assert!(judge(DRAIN, &Caller::with(Role::Admin)).allowed);
        for role in [Role::Auditor, Role::Agent, Role::Scheduler, Role::Gateway] {
            assert!(!judge(LIST, &Caller::with(role)).allowed, "{role:?}");
        }
    }
}
