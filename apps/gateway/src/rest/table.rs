//! Every route that asks one question of a scheduler and passes the answer on. The router and the
//! description of the interface are both made from it.

use super::row::{Fill, Gives, Row, Source, Verb};

use Gives::Plain;
use Source::{Always, Empty, Flag, Path, Query};
use Verb::{Delete, Get, Post, Put};

/// A row of the table.
macro_rules! row {
    ($verb:ident $path:literal, $service:ident $method:literal, $body:ident, $fill:expr, $gives:expr, $about:literal) => {
        Row {
            verb: $verb,
            path: $path,
            rpc: $service!($method),
            body: $body!(),
            fill: $fill,
            gives: $gives,
            about: $about,
        }
    };
}

macro_rules! control {
    ($method:literal) => {
        concat!("/persys.control.v1.AgentControl/", $method)
    };
}

macro_rules! compute {
    ($method:literal) => {
        concat!("/persys.compute.v1.Compute/", $method)
    };
}

macro_rules! access {
    ($method:literal) => {
        concat!("/persys.compute.v1.Access/", $method)
    };
}

macro_rules! secrets {
    ($method:literal) => {
        concat!("/persys.compute.v1.Secrets/", $method)
    };
}

macro_rules! audit {
    ($method:literal) => {
        concat!("/persys.compute.v1.Audit/", $method)
    };
}

macro_rules! joining {
    ($method:literal) => {
        concat!("/persys.compute.v1.Tokens/", $method)
    };
}

macro_rules! check {
    ($method:literal) => {
        concat!("/persys.compute.v1.Check/", $method)
    };
}

macro_rules! history {
    ($method:literal) => {
        concat!("/persys.compute.v1.History/", $method)
    };
}

macro_rules! bare {
    () => {
        false
    };
}

macro_rules! body {
    () => {
        true
    };
}

const WORKLOAD: &[Fill] = &[Fill(Path("id"), "workload_id")];
const NODE: &[Fill] = &[Fill(Path("id"), "node_id")];
const DISK: &[Fill] = &[Fill(Path("id"), "disk_id")];
const DISK_FORCE: &[Fill] = &[Fill(Path("id"), "disk_id"), Fill(Flag("force"), "force")];
const NODES: &[Fill] = &[Fill(Query("status"), "status")];
const WORKLOADS: &[Fill] = &[Fill(Query("node_id"), "node_id"), Fill(Query("status"), "status")];
const DELETED: &[Fill] = &[Fill(Path("id"), "workload_id"), Fill(Flag("volumes"), "volumes")];
const LABEL: &[Fill] = &[Fill(Path("id"), "node_id"), Fill(Query("key"), "key")];
const SECRET: &[Fill] = &[Fill(Path("name"), "name"), Fill(Query("namespace"), "namespace")];
const DONE: Gives = Gives::Verdict { flag: "success", why: "error_message" };
const ACCEPTED: Gives = Gives::Verdict { flag: "accepted", why: "message" };

/// The routes existing clients use. A refusal that the contract puts into its answer stays there.
#[rustfmt::skip]
pub const CLASSIC: &[Row] = &[
    row!(Post "/workloads/schedule", control "ApplyWorkload", body, &[], Plain, "Asks for a workload"),
    row!(Get "/list", control "ListWorkloads", bare, WORKLOADS, Plain, "Lists workloads"),
    row!(Get "/workloads", control "ListWorkloads", bare, WORKLOADS, Plain, "Lists workloads"),
    row!(Get "/workloads/{id}", control "GetWorkload", bare, WORKLOAD, Plain, "Shows a workload"),
    row!(Delete "/workloads/{id}", control "DeleteWorkload", bare, DELETED, Plain, "Deletes a workload; volumes named in its Compose file are kept unless volumes is set"),
    row!(Post "/workloads/{id}/retry", control "RetryWorkload", bare, WORKLOAD, Plain, "Tries a failed workload again"),
    row!(Get "/nodes", control "ListNodes", bare, NODES, Plain, "Lists nodes"),
    row!(Get "/nodes/{id}", control "GetNode", bare, NODE, Plain, "Shows a node"),
    row!(Post "/nodes/{id}/drain", control "DrainNode", body, NODE, Plain, "Moves work away from a node"),
    row!(Post "/nodes/{id}/undrain", control "UndrainNode", body, NODE, Plain, "Lets a node take work again"),
    row!(Post "/nodes/{id}/taint", control "TaintNode", body, NODE, Plain, "Keeps work off a node"),
    row!(Post "/nodes/{id}/untaint", control "UntaintNode", body, NODE, Plain, "Takes a taint away"),
    row!(Post "/nodes/{id}/labels", control "SetNodeLabel", body, NODE, Plain, "Sets a label"),
    row!(Delete "/nodes/{id}/labels", control "DeleteNodeLabel", body, LABEL, Plain, "Takes a label away"),
    row!(Get "/disks", control "ListDisks", bare, &[], Plain, "Lists disks"),
    row!(Post "/disks", control "CreateDisk", body, &[], Plain, "Makes a disk"),
    row!(Get "/disks/{id}", control "GetDisk", bare, DISK, Plain, "Shows a disk"),
    row!(Delete "/disks/{id}", control "DeleteDisk", bare, DISK_FORCE, Plain, "Deletes a disk"),
    row!(Get "/cluster/metrics", control "GetClusterSummary", bare, &[], Plain, "Counts nodes and workloads"),
];

/// The resources that came after.
#[rustfmt::skip]
pub const NEW: &[Row] = &[
    row!(Get "/v1/workloads", control "ListWorkloads", bare, WORKLOADS,
        Gives::Pages { field: "workloads", key: "workload_id", filters: &["type", "desired_state"] }, "Lists workloads, in pages"),
    row!(Post "/v1/workloads", control "ApplyWorkload", body, &[], DONE, "Asks for a workload"),
    row!(Get "/v1/workloads/{id}", control "GetWorkload", bare, WORKLOAD, Plain, "Shows a workload"),
    row!(Put "/v1/workloads/{id}", control "ApplyWorkload", body, WORKLOAD, DONE, "Asks for a workload of this name"),
    row!(Delete "/v1/workloads/{id}", control "DeleteWorkload", bare, DELETED, DONE, "Deletes a workload; volumes named in its Compose file are kept unless volumes is set"),
    row!(Get "/v1/workloads/{id}/describe", compute "Describe", bare, WORKLOAD, Plain, "Shows everything known of a workload, its spec included, without secrets"),
    row!(Get "/v1/workloads/{id}/why", compute "Why", bare, WORKLOAD, Plain, "Says why a workload is as it is, and what would change that"),
    row!(Get "/v1/workloads/{id}/history", history "ListRevisions", bare, WORKLOAD, Plain, "Lists the revisions of a workload that are kept, the newest first"),
    row!(Get "/v1/workloads/{id}/diff", history "Diff", bare,
        &[Fill(Path("id"), "workload_id"), Fill(Query("from"), "from"), Fill(Query("to"), "to"), Fill(Flag("secrets"), "secrets")],
        Plain, "Compares two revisions of a workload"),
    row!(Post "/v1/workloads/{id}/rollback", history "Rollback", body, WORKLOAD, Plain, "Takes an earlier revision of a workload back, as a new one"),
    row!(Post "/v1/workloads/{id}/retry", control "RetryWorkload", bare, WORKLOAD, ACCEPTED, "Tries a failed workload again"),
    row!(Post "/v1/workloads/{id}/restart", compute "Restart", bare, WORKLOAD, Plain, "Stops a workload and starts it where it is"),
    row!(Post "/v1/workloads/{id}/pause", compute "Pause", bare, WORKLOAD, Plain, "Pauses a workload: it gets no CPU time and keeps all it has"),
    row!(Post "/v1/workloads/{id}/resume", compute "Resume", bare, WORKLOAD, Plain, "Lets a paused workload run again"),
    row!(Post "/v1/workloads/{id}/stop", control "ApplyWorkload", bare,
        &[Fill(Path("id"), "workload_id"), Fill(Always("Stopped"), "desired_state")], DONE, "Stops a workload"),
    row!(Post "/v1/workloads/{id}/start", control "ApplyWorkload", bare,
        &[Fill(Path("id"), "workload_id"), Fill(Always("Running"), "desired_state")], DONE, "Starts a workload that was stopped"),
    row!(Get "/v1/nodes", control "ListNodes", bare, NODES,
        Gives::Pages { field: "nodes", key: "node_id", filters: &[] }, "Lists nodes, in pages"),
    row!(Get "/v1/nodes/{id}", control "GetNode", bare, NODE, Plain, "Shows a node"),
    row!(Get "/v1/nodes/{id}/why", compute "Why", bare, NODE, Plain, "Says why a node is as it is"),
    row!(Post "/v1/nodes/{id}/drain", control "DrainNode", body, NODE, ACCEPTED, "Moves work away from a node"),
    row!(Post "/v1/nodes/{id}/undrain", control "UndrainNode", body, NODE, ACCEPTED, "Lets a node take work again"),
    row!(Post "/v1/nodes/{id}/taint", control "TaintNode", body, NODE, ACCEPTED, "Keeps work off a node"),
    row!(Post "/v1/nodes/{id}/untaint", control "UntaintNode", body, NODE, ACCEPTED, "Takes a taint away"),
    row!(Post "/v1/nodes/{id}/labels", control "SetNodeLabel", body, NODE, ACCEPTED, "Sets a label"),
    row!(Delete "/v1/nodes/{id}/labels", control "DeleteNodeLabel", body, LABEL, ACCEPTED, "Takes a label away"),
    row!(Post "/v1/nodes/{id}/confirm-gone", compute "Operate", bare,
        &[Fill(Path("id"), "confirm_gone")], Plain, "Vouches that a silent node is switched off"),
    row!(Delete "/v1/nodes/{id}", compute "Operate", bare,
        &[Fill(Path("id"), "remove_node")], Plain, "Forgets a node that is gone"),
    row!(Get "/v1/events", control "ListEvents", bare,
        &[Fill(Query("limit"), "limit"), Fill(Query("after_id"), "after_id"), Fill(Query("type"), "type"),
          Fill(Query("workload_id"), "workload_id"), Fill(Query("node_id"), "node_id"), Fill(Flag("asked"), "asked")],
        Plain, "Lists what happened; with `after_id`, what happened since"),
    row!(Get "/v1/drifts", compute "ListDrifts", bare,
        &[Fill(Query("node_id"), "node_id")], Plain, "Lists where what is recorded and what nodes have differ"),
    row!(Post "/v1/drifts/check", compute "Operate", bare,
        &[Fill(Empty, "check_drift"), Fill(Query("node_id"), "check_drift.node_id")], Plain, "Has nodes tell all they hold, now"),
    row!(Post "/v1/drifts/{node_id}/{workload_id}/{verdict}", compute "Operate", bare,
        &[Fill(Path("node_id"), "orphan.node_id"), Fill(Path("workload_id"), "orphan.workload_id"), Fill(Path("verdict"), "orphan.verdict")],
        Plain, "Decides about something nobody knows: adopt, delete or ignore"),
    row!(Get "/v1/disks", control "ListDisks", bare, &[],
        Gives::Pages { field: "disks", key: "id", filters: &["driver", "node_id"] }, "Lists disks, in pages"),
    row!(Post "/v1/disks", control "CreateDisk", body, &[], Plain, "Makes a disk"),
    row!(Get "/v1/disks/{id}", control "GetDisk", bare, DISK, Plain, "Shows a disk"),
    row!(Delete "/v1/disks/{id}", control "DeleteDisk", bare, DISK_FORCE, DONE, "Deletes a disk"),
    row!(Get "/v1/summary", control "GetClusterSummary", bare, &[], Plain, "Counts nodes and workloads"),
    row!(Get "/v1/standing", compute "Standing", bare, &[], Plain, "Shows the mode of the scheduler, who leads, and what it waits for"),
    row!(Get "/v1/whoami", access "WhoAmI", bare, &[], Plain, "Says who is asking, and which roles they hold"),
    row!(Get "/v1/namespaces", access "ListNamespaces", bare, &[],
        Gives::Pages { field: "namespaces", key: "name", filters: &[] }, "Lists namespaces, in pages"),
    row!(Put "/v1/namespaces/{name}", access "PutNamespace", body,
        &[Fill(Path("name"), "namespace.name")], Plain, "Makes a namespace, or changes what is allowed in it"),
    row!(Delete "/v1/namespaces/{name}", access "DeleteNamespace", bare,
        &[Fill(Path("name"), "name")], Plain, "Deletes a namespace that nothing is in"),
    row!(Get "/v1/bindings", access "ListBindings", bare, &[],
        Gives::Pages { field: "bindings", key: "name", filters: &["user", "group", "role"] }, "Lists who has which role where, in pages"),
    row!(Post "/v1/bindings", access "PutBinding", body, &[], Plain, "Gives a role to somebody"),
    row!(Put "/v1/bindings/{name}", access "PutBinding", body,
        &[Fill(Path("name"), "binding.name")], Plain, "Gives a role to somebody, in place of the binding of this name"),
    row!(Delete "/v1/bindings/{name}", access "DeleteBinding", bare,
        &[Fill(Path("name"), "name")], Plain, "Takes a role away"),
    row!(Get "/v1/tokens", access "ListUserTokens", bare, &[],
        Gives::Pages { field: "tokens", key: "id", filters: &["user", "role"] }, "Lists tokens without what makes them good, in pages"),
    row!(Post "/v1/tokens", access "CreateUserToken", body, &[], Plain, "Makes a token, which is told this once"),
    row!(Delete "/v1/tokens/{id}", access "RevokeUserToken", bare,
        &[Fill(Path("id"), "id")], Plain, "Makes a token worthless"),
    row!(Get "/v1/secrets", secrets "ListSecrets", bare, &[Fill(Query("namespace"), "namespace")],
        Gives::Pages { field: "secrets", key: "namespace,name", filters: &[] }, "Lists secrets without their values, in pages; `namespace=*` means all that can be seen"),
    row!(Get "/v1/secrets/{name}", secrets "GetSecret", bare, SECRET, Plain, "Shows a secret without its value, and who uses it"),
    row!(Put "/v1/secrets/{name}", secrets "SetSecret", body, SECRET, Plain, "Sets a secret, whose value no call ever shows again"),
    row!(Delete "/v1/secrets/{name}", secrets "DeleteSecret", bare, SECRET, Plain, "Deletes a secret"),
    row!(Post "/v1/operate/rotate-secrets-key", secrets "RotateSecretsKey", bare, &[], Plain, "Seals all secrets anew with the first key of the key file"),
    row!(Get "/v1/audit", audit "ListAudit", bare,
        &[Fill(Query("limit"), "limit"), Fill(Query("after"), "after"), Fill(Query("who"), "who"), Fill(Query("object"), "object"),
          Fill(Query("since"), "since"), Fill(Flag("denied"), "denied"), Fill(Query("page_token"), "page_token")],
        Plain, "Lists who did what, and who was refused, in pages, the newest first"),
    row!(Get "/v1/audit/verify", audit "VerifyAudit", bare, &[], Plain, "Says whether the chain of records is whole"),
    row!(Get "/v1/join-tokens", joining "ListJoinTokens", bare, &[],
        Gives::Pages { field: "tokens", key: "id", filters: &["role"] }, "Lists with which tokens machines may join, in pages"),
    row!(Post "/v1/join-tokens", joining "CreateJoinToken", body, &[], Plain, "Lets a machine join with a secret of which only the hash is told"),
    row!(Delete "/v1/join-tokens/{id}", joining "DeleteJoinToken", bare,
        &[Fill(Path("id"), "id")], Plain, "Makes a token for joining worthless"),
    row!(Get "/v1/revocations", joining "ListRevocations", bare, &[],
        Gives::Pages { field: "revocations", key: "subject", filters: &[] }, "Lists who is no longer believed, in pages"),
    row!(Post "/v1/revocations", joining "Revoke", body, &[], Plain, "Believes somebody, or one certificate, no longer"),
    row!(Delete "/v1/revocations", joining "Reinstate", bare,
        &[Fill(Query("subject"), "subject")], Plain, "Believes them again"),
    row!(Post "/v1/check", check "Check", body, &[], Plain, "Says what would become of a workload: every fault, and where it would run or why not; nothing happens"),
    row!(Post "/v1/operate", compute "Operate", body, &[], Plain, "Says what only an operator can say"),
];

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Row> {
    CLASSIC.iter().chain(NEW)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use persys_proto::json;
    use serde_json::json;

    use super::*;
    use crate::rest::message;

    #[test]
    fn every_row_asks_a_method_there_is_in_a_way_it_can_be_asked() {
        let mut seen = BTreeSet::new();
        for row in all() {
            let at = format!("{:?} {}", row.verb, row.path);
            assert!(seen.insert(at.clone()), "{at} stands twice");
            let method = json::method(row.rpc).unwrap_or_else(|| panic!("{at}: {}", row.rpc));
            assert!(method.is_unary, "{at}");
            let mut value = json!({});
            for Fill(source, place) in row.fill {
                match source {
                    Path(name) => {
                        assert!(row.path.contains(&format!("{{{name}}}")), "{at}: {name}");
                    }
                    Query(_) | Flag(_) | Always(_) | Empty => {}
                }
                let sample = match source {
                    Flag(_) => json!(true),
                    Empty => json!({}),
                    Always(text) => json!(text),
                    Query("since") => json!("2026-01-31T12:00:00Z"),
                    Path(_) | Query(_) => json!("1"),
                };
                message::put(&mut value, place, sample);
            }
            let read = json::read_bytes(method.input, "", &value);
            assert!(read.is_ok(), "{at}: {read:?}");
            let parts = row.path.matches('{').count();
            let fills = row.fill.iter().filter(|Fill(source, _)| matches!(source, Path(_))).count();
            assert_eq!(parts, fills, "{at}: every part of the path goes somewhere");
        }
        assert!(seen.len() > 40);
    }

    #[test]
    fn what_says_whether_it_was_done_is_a_field_of_the_answer() {
        for row in all() {
            let output = json::method(row.rpc).unwrap().output;
            let keys = json::keys(output);
            match row.gives {
                Gives::Verdict { flag, .. } => assert!(keys.contains(&flag), "{}", row.path),
                Gives::Pages { field, .. } => assert!(keys.contains(&field), "{}", row.path),
                Plain => {}
            }
        }
    }
}
