//! The mode of the scheduler, and words only an operator can say.

use persys_cluster::input::{Ask, OrphanVerdict, Recovery};
use persys_cluster::world::World;
use persys_model::id::NodeId;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::operate_request::Word;
use persys_proto::convert::time::timestamp;
use tonic::Status;

use super::Compute;
use crate::handle::Unanswered;
use crate::rpc::refusal::{done, node_id, workload_id};

impl Compute {
    /// How this process stands; also when it does not lead, for that is an answer too.
    pub(super) async fn tell_standing(&self) -> Result<api::StandingResponse, Status> {
        let standing = self.handle.standing().borrow().clone();
        let mut answer = api::StandingResponse {
            cluster: self.cluster.clone(),
            mode: standing.word().to_owned(),
            reason: standing.why.to_string(),
            since: Some(timestamp(standing.since)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: standing.role().word().to_owned(),
            leader: standing.leader.as_deref().unwrap_or_default().to_owned(),
            copy_age_ms: self.handle.copy_age().unwrap_or_default(),
            ..api::StandingResponse::default()
        };
        let found = self
            .handle
            .read(|world| {
                let heard: Vec<_> = world.heard().map(ToString::to_string).collect();
                (world.term().0, world.brake(), heard)
            })
            .await;
        match found {
            Ok((term, brake, heard)) => {
                (answer.term, answer.brake, answer.heard) = (term, brake, heard);
                Ok(answer)
            }
            Err(Unanswered::NotLeader) => Ok(answer),
            Err(why @ (Unanswered::TimedOut | Unanswered::Stopping)) => Err(why.into()),
        }
    }

    pub(super) async fn take_word(
        &self,
        request: api::OperateRequest,
    ) -> Result<api::OperateResponse, Status> {
        let ask = ask_for(request)?;
        let checks = if let Ask::CheckDrift(node) = &ask { Some(node.clone()) } else { None };
        let note = done(self.handle.ask(ask).await?)?;
        if let Some(only) = checks {
            self.ask_contract_agents(only).await?;
        }
        Ok(api::OperateResponse { note })
    }
}

impl Compute {
    /// Agents that are asked for what they hold are asked now, not with their next heartbeat.
    async fn ask_contract_agents(&self, only: Option<NodeId>) -> Result<(), Status> {
        let asked = move |world: &World| {
            let wanted = |id: &NodeId| only.as_ref().is_none_or(|only| only == id);
            let nodes = world.nodes().map(|view| &view.node.facts);
            let asked = nodes.filter(|facts| facts.is_asked_for_inventory() && wanted(&facts.id));
            asked.map(|facts| facts.id.clone()).collect::<Vec<_>>()
        };
        let nodes = self.handle.read(asked).await?;
        let contract = self.links.contract();
        contract.with(|agents, _| nodes.iter().for_each(|node| agents.want_list(node)));
        contract.wake();
        Ok(())
    }
}

fn ask_for(request: api::OperateRequest) -> Result<Ask, Status> {
    let Some(word) = request.word else {
        return Err(Status::invalid_argument("word: nothing is said"));
    };
    Ok(match word {
        Word::ConfirmGone(node) => Ask::ConfirmGone(node_id(&node)?),
        Word::RemoveNode(node) => Ask::RemoveNode(node_id(&node)?),
        Word::ReleaseBrake(true) => Ask::ReleaseBrake,
        Word::ReleaseBrake(false) => {
            let why = "release_brake: is false; the brake is put on by the scheduler alone";
            return Err(Status::invalid_argument(why));
        }
        Word::Orphan(api::OrphanVerdict { node_id: node, workload_id: workload, verdict }) => {
            let verdict = match verdict.as_str() {
                "adopt" => OrphanVerdict::Adopt,
                "delete" => OrphanVerdict::Delete,
                "ignore" => OrphanVerdict::Ignore,
                _ => {
                    let why = "orphan.verdict: is none of adopt, delete, ignore";
                    return Err(Status::invalid_argument(why));
                }
            };
            Ask::Orphan(node_id(&node)?, workload_id(&workload)?, verdict)
        }
        Word::CheckDrift(api::CheckDrift { node_id: node }) => Ask::CheckDrift(match &*node {
            "" => None,
            node => Some(node_id(node)?),
        }),
        Word::Recover(way) => Ask::Recover(match way.as_str() {
            "from_agents" => Recovery::FromAgents,
            "accept_empty" => Recovery::AcceptEmpty,
            _ => {
                let why = "recover: is neither from_agents nor accept_empty; a snapshot is given to \
                           Recover";
                return Err(Status::invalid_argument(why));
            }
        }),
    })
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn said(word: Word) -> Result<Ask, Status> {
        ask_for(api::OperateRequest { word: Some(word) })
    }

    fn orphan(node: &str, workload: &str, verdict: &str) -> Word {
        Word::Orphan(api::OrphanVerdict {
            node_id: node.to_owned(),
            workload_id: workload.to_owned(),
            verdict: verdict.to_owned(),
        })
    }

    fn check(node: &str) -> Word {
        Word::CheckDrift(api::CheckDrift { node_id: node.to_owned() })
    }

    #[test]
    fn every_word_has_its_meaning() {
        let node = || node_id("n1").unwrap();
        let web = || workload_id("web").unwrap();
        let rows = [
            (Word::ConfirmGone("n1".to_owned()), Ask::ConfirmGone(node())),
            (Word::RemoveNode("n1".to_owned()), Ask::RemoveNode(node())),
            (Word::ReleaseBrake(true), Ask::ReleaseBrake),
            (orphan("n1", "web", "adopt"), Ask::Orphan(node(), web(), OrphanVerdict::Adopt)),
            (orphan("n1", "web", "delete"), Ask::Orphan(node(), web(), OrphanVerdict::Delete)),
            (orphan("n1", "web", "ignore"), Ask::Orphan(node(), web(), OrphanVerdict::Ignore)),
            (check(""), Ask::CheckDrift(None)),
            (check("n1"), Ask::CheckDrift(Some(node()))),
            (Word::Recover("from_agents".to_owned()), Ask::Recover(Recovery::FromAgents)),
            (Word::Recover("accept_empty".to_owned()), Ask::Recover(Recovery::AcceptEmpty)),
        ];
        for (word, ask) in rows {
            assert_eq!(said(word.clone()).unwrap(), ask, "{word:?}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_named() {
        let rows = [
            (Word::ConfirmGone(String::new()), "node_id"),
            (Word::RemoveNode("a b".to_owned()), "node_id"),
            (Word::ReleaseBrake(false), "release_brake"),
            (orphan("n1", "web", "hug"), "orphan.verdict"),
            (orphan("n1", "", "adopt"), "workload_id"),
            (check("a b"), "node_id"),
            (Word::Recover("soon".to_owned()), "recover"),
        ];
        for (word, named) in rows {
            let refused = said(word.clone()).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{word:?}");
            assert!(refused.message().starts_with(named), "{word:?}: {}", refused.message());
        }
        assert_eq!(
            ask_for(api::OperateRequest::default()).unwrap_err().code(),
            Code::InvalidArgument
        );
    }
}
