//! Nodes: looking at them, and what operators do with them.

use std::sync::Arc;

use persys_cluster::input::Ask;
use persys_cluster::world::NodeView;
use persys_model::id::NodeId;
use persys_model::labels::{Taint, TaintEffect};
use persys_model::node::Node;
use persys_proto::control::v1 as wire;
use persys_proto::convert::view::node as shown;
use tonic::Status;

use super::Control;
use super::refusal::{done, known_status, node_id};
use crate::handle::Looked;

/// Bytes of a key of a label or taint.
const KEY_BYTES: usize = 128;
/// Bytes of a value of a label or taint, and of a reason.
const VALUE_BYTES: usize = 256;

/// What an operation on a node led to.
pub(super) struct Changed {
    pub(super) message: String,
    pub(super) node: Option<wire::NodeView>,
}

impl Control {
    pub(super) async fn nodes(
        &self,
        request: wire::ListNodesRequest,
    ) -> Result<Looked<wire::ListNodesResponse>, Status> {
        known_status(&request.status, Node::STATUS_WORDS.into_iter())?;
        let (status, beats) = (request.status, self.agents.last_beats());
        let versions = self.agents.versions();
        let nodes = self
            .handle
            .look(move |world| {
                let wanted = |word: &str| status.is_empty() || word.eq_ignore_ascii_case(&status);
                let nodes = world.nodes().filter(|view| wanted(view.node.status_word()));
                let show = |view: NodeView<'_>| {
                    let id = &view.node.facts.id;
                    with_version(shown::to_wire(&view, beats.get(id).copied()), versions.get(id))
                };
                nodes.map(show).collect()
            })
            .await?;
        Ok(nodes.map(|nodes| wire::ListNodesResponse { nodes }))
    }

    pub(super) async fn node(
        &self,
        request: wire::GetNodeRequest,
    ) -> Result<Looked<wire::GetNodeResponse>, Status> {
        let id = node_id(&request.node_id)?;
        let (wanted, beat) = (id.clone(), self.agents.last_beat(&id));
        let version = self.agents.version(&id);
        let found = self.handle.look(move |world| {
            let view = world.node(&wanted)?;
            Some(with_version(shown::to_wire(&view, beat), version.as_ref()))
        });
        let found = found.await?;
        if found.value.is_none() {
            return Err(Status::not_found(format!("there is no node {id}")));
        }
        Ok(found.map(|node| wire::GetNodeResponse { node }))
    }

    async fn look_at(&self, id: &NodeId) -> Result<Option<wire::NodeView>, Status> {
        let (id, beat) = (id.clone(), self.agents.last_beat(id));
        let look = move |world: &persys_cluster::world::World| {
            world.node(&id).map(|view| shown::to_wire(&view, beat))
        };
        Ok(self.handle.read(look).await?)
    }

    async fn change(&self, node: NodeId, ask: Ask) -> Result<Changed, Status> {
        let message = done(self.handle.ask(ask).await?)?;
        Ok(Changed { message, node: self.look_at(&node).await? })
    }

    pub(super) async fn drain(
        &self,
        request: wire::DrainNodeRequest,
    ) -> Result<wire::DrainNodeResponse, Status> {
        let node = node_id(&request.node_id)?;
        let why = text("reason", &request.reason)?;
        let before = self.look_at(&node).await?.map_or(0, |view| view.workloads);
        let Changed { message, node } = self.change(node.clone(), Ask::Drain(node, why)).await?;
        let after = node.as_ref().map_or(0, |view| view.workloads);
        let relocated_workloads = before.saturating_sub(after).max(0);
        Ok(wire::DrainNodeResponse { accepted: true, message, relocated_workloads, node })
    }

    pub(super) async fn undrain(
        &self,
        request: wire::UndrainNodeRequest,
    ) -> Result<Changed, Status> {
        let node = node_id(&request.node_id)?;
        self.change(node.clone(), Ask::Undrain(node)).await
    }

    pub(super) async fn taint(&self, request: wire::TaintNodeRequest) -> Result<Changed, Status> {
        let node = node_id(&request.node_id)?;
        let Some(taint) = request.taint else {
            return Err(Status::invalid_argument("taint: is missing"));
        };
        let taint = Taint {
            key: key("taint.key", &taint.key)?,
            value: text("taint.value", &taint.value)?,
            effect: effect("taint.effect", &taint.effect)?.unwrap_or(TaintEffect::NoSchedule),
        };
        self.change(node.clone(), Ask::Taint(node, taint)).await
    }

    pub(super) async fn untaint(
        &self,
        request: wire::UntaintNodeRequest,
    ) -> Result<Changed, Status> {
        let node = node_id(&request.node_id)?;
        let (key, effect) = (key("key", &request.key)?, effect("effect", &request.effect)?);
        self.change(node.clone(), Ask::Untaint(node, key, effect)).await
    }

    pub(super) async fn set_label(
        &self,
        request: wire::SetNodeLabelRequest,
    ) -> Result<Changed, Status> {
        let node = node_id(&request.node_id)?;
        let (key, value) = (key("key", &request.key)?, text("value", &request.value)?);
        self.change(node.clone(), Ask::SetLabel(node, key, value)).await
    }

    pub(super) async fn delete_label(
        &self,
        request: wire::DeleteNodeLabelRequest,
    ) -> Result<Changed, Status> {
        let node = node_id(&request.node_id)?;
        let key = key("key", &request.key)?;
        self.change(node.clone(), Ask::DeleteLabel(node, key)).await
    }
}

fn with_version(mut shown: wire::NodeView, version: Option<&Arc<str>>) -> wire::NodeView {
    shown.agent_version = version.map(ToString::to_string).unwrap_or_default();
    shown
}

/// A key as agents may give one too: visible ASCII, beginning with a letter or digit, without `=`.
fn key(field: &str, text: &str) -> Result<Arc<str>, Status> {
    let start = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let clean = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=');
    if start && clean && text.len() <= KEY_BYTES {
        return Ok(Arc::from(text));
    }
    let rule = format!("is not a key: at most {KEY_BYTES} visible ASCII without '='");
    Err(Status::invalid_argument(format!("{field}: {rule}")))
}

fn text(field: &str, text: &str) -> Result<Arc<str>, Status> {
    if text.len() <= VALUE_BYTES && !text.chars().any(char::is_control) {
        return Ok(Arc::from(text));
    }
    let rule = format!("is longer than {VALUE_BYTES} bytes or unprintable");
    Err(Status::invalid_argument(format!("{field}: {rule}")))
}

fn effect(field: &str, text: &str) -> Result<Option<TaintEffect>, Status> {
    let known = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule];
    if text.is_empty() {
        return Ok(None);
    }
    match known.into_iter().find(|effect| shown::effect(*effect).eq_ignore_ascii_case(text)) {
        Some(effect) => Ok(Some(effect)),
        None => Err(Status::invalid_argument(format!(
            "{field}: is neither NoSchedule nor PreferNoSchedule"
        ))),
    }
}
