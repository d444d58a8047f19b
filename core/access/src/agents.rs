//! What an agent answers, and whom.
//!
//! Schedulers command agents; nobody else does, because what everybody else wants is judged, bounded
//! by the policy of a namespace and written down at a scheduler. An admin may look at a node when no
//! scheduler answers. An agent without schedulers has nobody but its admins: they command it.

use crate::role::Role;

/// What a method of an agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AtAgent {
    /// Says whether it is there.
    Health,
    /// Looks.
    Looks,
    /// Changes what runs, or gets inside it.
    Commands,
}

impl AtAgent {
    /// Whether somebody in `role` may; `alone` says that the agent has no schedulers.
    #[must_use]
    pub fn allows(self, role: Role, alone: bool) -> bool {
        match self {
            Self::Health => true,
            Self::Looks => matches!(role, Role::Scheduler | Role::Admin),
            Self::Commands => role == Role::Scheduler || (alone && role == Role::Admin),
        }
    }

    /// What is asked of a caller, for refusals.
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Self::Health => "anybody of the cluster",
            Self::Looks => "schedulers and admins",
            Self::Commands => "schedulers; ask one of them",
        }
    }
}

/// The rule of a method of an agent. Names are compared as a whole.
#[must_use]
pub fn at_agent(method: &str) -> Option<AtAgent> {
    AGENT_TABLE.iter().find(|(named, _)| *named == method).map(|(_, rule)| *rule)
}

/// Every method that an agent serves.
#[rustfmt::skip]
pub const AGENT_TABLE: &[(&str, AtAgent)] = &[
    ("/persys.agent.v1.AgentService/ApplyWorkload", AtAgent::Commands),
    ("/persys.agent.v1.AgentService/DeleteWorkload", AtAgent::Commands),
    ("/persys.agent.v1.AgentService/GetWorkloadStatus", AtAgent::Looks),
    ("/persys.agent.v1.AgentService/ListWorkloads", AtAgent::Looks),
    ("/persys.agent.v1.AgentService/HealthCheck", AtAgent::Looks),
    ("/persys.agent.v1.AgentService/ListActions", AtAgent::Looks),
    ("/persys.compute.v1.Inside/Inspect", AtAgent::Looks),
    ("/persys.compute.v1.Inside/Logs", AtAgent::Commands),
    ("/persys.compute.v1.Inside/Exec", AtAgent::Commands),
    ("/persys.compute.v1.Inside/Console", AtAgent::Commands),
    ("/persys.compute.v1.Logging/LogLevels", AtAgent::Commands),
    ("/grpc.health.v1.Health/Check", AtAgent::Health),
    ("/grpc.health.v1.Health/Watch", AtAgent::Health),
    ("/grpc.health.v1.Health/List", AtAgent::Health),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", AtAgent::Looks),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", AtAgent::Looks),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_but_schedulers_commands_an_agent_that_has_schedulers() {
        for (method, rule) in AGENT_TABLE {
            assert_eq!(at_agent(method), Some(*rule), "{method} stands twice");
            for role in Role::ALL.iter().copied() {
                let looks = *rule == AtAgent::Looks && role == Role::Admin;
                let may = *rule == AtAgent::Health || role == Role::Scheduler || looks;
                assert_eq!(rule.allows(role, false), may, "{method}: {role:?}");
                let alone = may || role == Role::Admin;
                assert_eq!(rule.allows(role, true), alone, "{method}: {role:?}");
            }
        }
        assert_eq!(at_agent("/persys.agent.v1.AgentService/Apply"), None);
    }
}
