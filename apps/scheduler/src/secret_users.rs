//! Workloads that use a secret, and restarts of those that get a new value in no other way.

use persys_cluster::world::NewValue;
use persys_model::entry::SecretEntry;
use persys_model::id::WorkloadId;

use crate::handle::{Handle, Unanswered};
use crate::rpc::restart_workload;

/// Workloads of the namespace that name a secret, with the way each gets a new value of it.
pub(crate) async fn users(
    handle: &Handle,
    secret: &SecretEntry,
) -> Result<Vec<(WorkloadId, NewValue)>, Unanswered> {
    let (namespace, name) = (secret.namespace.clone(), secret.name.clone());
    let users = handle.look(move |world| world.secret_users(&namespace, &name));
    Ok(users.await?.value)
}

/// Restarts what asks for a signal that its agent cannot send and, with `all`, what would get the value
/// when it is next started: one after another, beside everything else. What is signalled is left alone.
pub(crate) fn restart_users(handle: &Handle, secret: &SecretEntry, all: bool) {
    let (handle, secret) = (handle.clone(), secret.clone());
    tokio::spawn(async move {
        let users = users(&handle, &secret).await.unwrap_or_default();
        let restarted = users.into_iter().filter(|(_, how)| match how {
            NewValue::Signal => false,
            NewValue::Restart => true,
            NewValue::NextStart => all,
        });
        for (id, _) in restarted {
            match restart_workload(&handle, id.clone()).await {
                Ok(note) => {
                    tracing::info!(%id, secret = %secret.name, note, "restarted for a new value");
                }
                Err(why) => {
                    let why = why.message();
                    tracing::warn!(%id, secret = %secret.name, why, "not restarted for a new value");
                }
            }
        }
    });
}
