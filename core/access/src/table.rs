//! The table.

use crate::role::Role;

/// Who may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// Everybody who got through the handshake.
    Everyone,
    /// Everybody who is somebody: whoever has any role as a person or tool.
    Users,
    /// An agent, for the node its certificate names.
    Agents,
    /// Those who may look, at what is in their namespaces: the method picks out what that is.
    Viewers,
    /// Those who may change workloads, in their namespaces: the method sees to that.
    Operators,
    /// Those who may look everywhere.
    ClusterViewers,
    /// Those who may change workloads everywhere.
    ClusterOperators,
    /// Those who may do everything everywhere.
    Admins,
    /// Those who read who did what.
    Auditors,
}

/// Which process answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// Whoever is asked.
    Here,
    /// Whoever is asked, from a copy where it does not lead.
    Copy,
    /// The leader.
    Leader,
    /// The leader; and what can be looked at is not as before.
    Change,
}

/// A method, who may call it, and which process answers.
pub type Row = (&'static str, Who, By);

impl Who {
    /// The roles that will do.
    #[must_use]
    pub fn roles(self) -> &'static [Role] {
        match self {
            Self::Everyone => Role::ALL,
            Self::Users => &[Role::Viewer, Role::Operator, Role::Admin, Role::Auditor],
            Self::Agents => &[Role::Agent],
            Self::Viewers | Self::ClusterViewers => &[Role::Viewer, Role::Operator, Role::Admin],
            Self::Operators | Self::ClusterOperators => &[Role::Operator, Role::Admin],
            Self::Admins => &[Role::Admin],
            Self::Auditors => &[Role::Auditor, Role::Admin],
        }
    }

    /// Whether the role has to count everywhere; otherwise it will do that it counts somewhere, and
    /// the method looks at each thing it touches.
    #[must_use]
    pub fn everywhere(self) -> bool {
        match self {
            Self::ClusterViewers | Self::ClusterOperators | Self::Admins | Self::Auditors => true,
            Self::Everyone | Self::Users | Self::Agents | Self::Viewers | Self::Operators => false,
        }
    }

    /// What is asked of a caller, for refusals and records.
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Self::Everyone => "anybody of the cluster",
            Self::Users => "any user",
            Self::Agents => "agents, each for its own node",
            Self::Viewers => "viewers, in their namespaces",
            Self::Operators => "operators, in their namespaces",
            Self::ClusterViewers => "viewers of the whole cluster",
            Self::ClusterOperators => "operators of the whole cluster",
            Self::Admins => "admins of the whole cluster",
            Self::Auditors => "auditors of the whole cluster",
        }
    }
}

/// The row of a method. Names are compared as a whole.
#[must_use]
pub fn row(method: &str) -> Option<&'static Row> {
    TABLE.iter().find(|(named, ..)| *named == method)
}

/// Every method that is served.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    ("/persys.control.v1.AgentControl/RegisterNode", Who::Agents, By::Leader),
    ("/persys.control.v1.AgentControl/Heartbeat", Who::Agents, By::Leader),
    ("/persys.control.v1.AgentControl/ControlStream", Who::Agents, By::Leader),
    ("/persys.control.v1.AgentControl/ApplyWorkload", Who::Operators, By::Change),
    ("/persys.control.v1.AgentControl/DeleteWorkload", Who::Operators, By::Change),
    ("/persys.control.v1.AgentControl/RetryWorkload", Who::Operators, By::Change),
    ("/persys.control.v1.AgentControl/SubmitAutomationSuggestion", Who::Operators, By::Change),
    ("/persys.control.v1.AgentControl/ListNodes", Who::ClusterViewers, By::Copy),
    ("/persys.control.v1.AgentControl/GetNode", Who::ClusterViewers, By::Copy),
    ("/persys.control.v1.AgentControl/ListWorkloads", Who::Viewers, By::Copy),
    ("/persys.control.v1.AgentControl/GetWorkload", Who::Viewers, By::Copy),
    ("/persys.control.v1.AgentControl/GetClusterSummary", Who::ClusterViewers, By::Copy),
    ("/persys.control.v1.AgentControl/DrainNode", Who::Admins, By::Change),
    ("/persys.control.v1.AgentControl/UndrainNode", Who::Admins, By::Change),
    ("/persys.control.v1.AgentControl/TaintNode", Who::Admins, By::Change),
    ("/persys.control.v1.AgentControl/UntaintNode", Who::Admins, By::Change),
    ("/persys.control.v1.AgentControl/SetNodeLabel", Who::Admins, By::Change),
    ("/persys.control.v1.AgentControl/DeleteNodeLabel", Who::Admins, By::Change),
    ("/persys.control.v1.AgentControl/ListEvents", Who::Viewers, By::Here),
    ("/persys.control.v1.AgentControl/WatchEvents", Who::Viewers, By::Leader),
    ("/persys.control.v1.AgentControl/CreateDisk", Who::ClusterOperators, By::Change),
    ("/persys.control.v1.AgentControl/ListDisks", Who::ClusterViewers, By::Copy),
    ("/persys.control.v1.AgentControl/GetDisk", Who::ClusterViewers, By::Copy),
    ("/persys.control.v1.AgentControl/DeleteDisk", Who::ClusterOperators, By::Change),
    ("/persys.control.v1.AgentControl/CreateBucket", Who::Admins, By::Here),
    ("/persys.control.v1.AgentControl/ListBuckets", Who::Admins, By::Here),
    ("/persys.control.v1.AgentControl/GetBucket", Who::Admins, By::Here),
    ("/persys.control.v1.AgentControl/DeleteBucket", Who::Admins, By::Here),
    ("/persys.control.v1.AgentControl/GetBucketAccess", Who::Admins, By::Here),
    ("/persys.control.v1.AgentControl/ListBucketObjects", Who::Admins, By::Here),
    ("/persys.compute.v1.Compute/Why", Who::Viewers, By::Leader),
    ("/persys.compute.v1.Compute/Describe", Who::Viewers, By::Leader),
    ("/persys.compute.v1.Compute/Restart", Who::Operators, By::Change),
    ("/persys.compute.v1.Compute/Pause", Who::Operators, By::Change),
    ("/persys.compute.v1.Compute/Resume", Who::Operators, By::Change),
    ("/persys.compute.v1.Compute/Logs", Who::Viewers, By::Leader),
    ("/persys.compute.v1.Compute/Exec", Who::Operators, By::Leader),
    ("/persys.compute.v1.Compute/Console", Who::Operators, By::Leader),
    ("/persys.compute.v1.Compute/Standing", Who::ClusterViewers, By::Here),
    ("/persys.compute.v1.Compute/Operate", Who::Admins, By::Change),
    ("/persys.compute.v1.Compute/Snapshot", Who::Admins, By::Here),
    ("/persys.compute.v1.Compute/Recover", Who::Admins, By::Change),
    ("/persys.compute.v1.Compute/ListDrifts", Who::Viewers, By::Copy),
    ("/persys.compute.v1.Tokens/CreateJoinToken", Who::Admins, By::Change),
    ("/persys.compute.v1.Tokens/ListJoinTokens", Who::Admins, By::Leader),
    ("/persys.compute.v1.Tokens/DeleteJoinToken", Who::Admins, By::Change),
    ("/persys.compute.v1.Tokens/Revoke", Who::Admins, By::Change),
    ("/persys.compute.v1.Tokens/Reinstate", Who::Admins, By::Change),
    ("/persys.compute.v1.Tokens/ListRevocations", Who::Admins, By::Leader),
    ("/persys.compute.v1.Secrets/SetSecret", Who::Operators, By::Change),
    ("/persys.compute.v1.Secrets/ListSecrets", Who::Viewers, By::Leader),
    ("/persys.compute.v1.Secrets/GetSecret", Who::Viewers, By::Leader),
    ("/persys.compute.v1.Secrets/DeleteSecret", Who::Operators, By::Change),
    ("/persys.compute.v1.Secrets/RotateSecretsKey", Who::Admins, By::Change),
    ("/persys.compute.v1.Audit/ListAudit", Who::Auditors, By::Here),
    ("/persys.compute.v1.Audit/VerifyAudit", Who::Auditors, By::Here),
    ("/persys.compute.v1.Sources/Refresh", Who::Operators, By::Change),
    ("/persys.compute.v1.Logging/LogLevels", Who::Admins, By::Here),
    ("/persys.compute.v1.Check/Check", Who::Operators, By::Leader),
    ("/persys.compute.v1.History/ListRevisions", Who::Viewers, By::Leader),
    ("/persys.compute.v1.History/Diff", Who::Viewers, By::Leader),
    ("/persys.compute.v1.History/Rollback", Who::Operators, By::Change),
    ("/persys.compute.v1.Reads/GetWorkloads", Who::Viewers, By::Copy),
    ("/persys.compute.v1.Access/WhoAmI", Who::Users, By::Here),
    ("/persys.compute.v1.Access/ListNamespaces", Who::ClusterViewers, By::Leader),
    ("/persys.compute.v1.Access/PutNamespace", Who::Admins, By::Change),
    ("/persys.compute.v1.Access/DeleteNamespace", Who::Admins, By::Change),
    ("/persys.compute.v1.Access/ListBindings", Who::Admins, By::Leader),
    ("/persys.compute.v1.Access/PutBinding", Who::Admins, By::Change),
    ("/persys.compute.v1.Access/DeleteBinding", Who::Admins, By::Change),
    ("/persys.compute.v1.Access/CreateUserToken", Who::Admins, By::Change),
    ("/persys.compute.v1.Access/ListUserTokens", Who::Admins, By::Leader),
    ("/persys.compute.v1.Access/RevokeUserToken", Who::Admins, By::Change),
    ("/grpc.health.v1.Health/Check", Who::Everyone, By::Here),
    ("/grpc.health.v1.Health/Watch", Who::Everyone, By::Here),
    ("/grpc.health.v1.Health/List", Who::Everyone, By::Here),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Who::Admins, By::Here),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Who::Admins, By::Here),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_row_stands_twice_and_none_is_found_by_half_its_name() {
        let unique: BTreeSet<_> = TABLE.iter().map(|(method, ..)| method).collect();
        assert_eq!(unique.len(), TABLE.len());
        assert!(row("/grpc.health.v1.Health/Check").is_some());
        for wrong in ["", "/grpc.health.v1.Health/Chec", "/grpc.health.v1.Health/CheckX", "/"] {
            assert!(row(wrong).is_none(), "{wrong:?}");
        }
    }
}
