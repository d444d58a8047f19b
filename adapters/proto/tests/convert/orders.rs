//! Orders to agents and their answers.

use persys_model::command::{Answer, Command, Order, Refusal};
use persys_model::task::TaskStatus;
use persys_model::time::WallMillis;
use persys_model::token::Epoch;
use persys_proto::convert::answer::{self, LegacyAnswer};
use persys_proto::convert::command::{self, Call};
use persys_proto::convert::{Said, beat};
use persys_proto::{agent::v1 as agent, control::v1 as control};

use crate::paths;
use crate::random::Random;
use crate::samples;

fn called(call: Call) -> Command {
    let said = match call {
        Call::Apply(request) => match command::from_apply(*request).unwrap() {
            Said::Ours(command) => Some(command),
            Said::Legacy(_) => None,
        },
        Call::Delete(request) => match command::from_delete(&request).unwrap() {
            Said::Ours(command) => Some(command),
            Said::Legacy(_) => None,
        },
    };
    said.expect("tokens were lost")
}

#[test]
fn an_order_survives_both_ways_to_an_agent() {
    for seed in 0..500 {
        let order = samples::command(&mut Random(seed));
        assert_eq!(called(command::to_call(&order)), order, "called, seed {seed}");
        let message = command::to_stream(&order, seed);
        assert_eq!(command::from_stream(message).unwrap(), (seed, order), "streamed, seed {seed}");
    }
}

/// The container of an order, as it is written and as an agent of ours reads it.
fn container_of(
    draft: persys_model::spec::draft::ContainerDraft,
) -> (control::ContainerSpec, Command) {
    use persys_model::spec::draft::Draft;
    let draft = Draft {
        workload_type: "container".to_owned(),
        container: Some(draft),
        resources: persys_model::spec::draft::ResourcesDraft {
            cpu_millicores: 100,
            memory_mb: 64,
            disk_gb: 0,
        },
        ..Draft::default()
    };
    let spec = std::sync::Arc::new(persys_model::spec::check::check(&draft).unwrap());
    let mut order = (0..).map(|seed| samples::command(&mut Random(seed)));
    let mut order = order.find(|one| matches!(one.order, Order::Apply(_))).unwrap();
    if let Order::Apply(apply) = &mut order.order {
        apply.spec = spec;
    }
    let Some(control::workload_spec::Workload::Container(body)) =
        command::to_stream(&order, 1).spec.unwrap().workload
    else {
        panic!("no container")
    };
    (body, order)
}

#[test]
fn agents_of_this_version_and_the_one_before_run_the_same_program() {
    let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
    let draft =
        |entrypoint: &str, command: &str, args: &str| persys_model::spec::draft::ContainerDraft {
            image: "nginx".to_owned(),
            entrypoint: words(entrypoint),
            command: words(command),
            args: words(args),
            ..Default::default()
        };
    // Such an agent takes the command for the entrypoint, and so does one of this version then.
    let (body, order) = container_of(draft("tini --", "serve", "-p 1"));
    assert_eq!((body.command, body.args), (words("tini --"), words("serve -p 1")));
    assert!(!body.command_is_cmd && body.entrypoint.is_empty());
    assert_eq!(called(command::to_call(&order)), order);
    let (body, order) = container_of(draft("", "serve", "-p 1"));
    assert!(body.command_is_cmd);
    assert_eq!(called(command::to_call(&order)), order);
    // An order of the version before is read as it was meant there.
    let mut message = command::to_stream(&order, 1);
    if let Some(control::workload_spec::Workload::Container(body)) =
        message.spec.as_mut().and_then(|spec| spec.workload.as_mut())
    {
        body.command_is_cmd = false;
    }
    let (_, read) = command::from_stream(message).unwrap();
    let Order::Apply(apply) = read.order else { panic!("not an apply") };
    let persys_model::spec::Kind::Container(body) = &apply.spec.kind else { panic!() };
    let texts =
        |list: &[std::sync::Arc<str>]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&body.entrypoint), ["serve"]);
    assert_eq!((texts(&body.command), texts(&body.args)), (vec![], words("-p 1")));
}

#[test]
fn an_order_without_all_tokens_is_refused() {
    let mut order = samples::command(&mut Random(1));
    order.order = Order::Remove { purge: true };
    let Call::Delete(whole) = command::to_call(&order) else { panic!("not a delete") };
    for (field, message) in [
        ("term", agent::DeleteWorkloadRequest { term: 0, ..whole.clone() }),
        ("session", agent::DeleteWorkloadRequest { session: 0, ..whole.clone() }),
        ("epoch", agent::DeleteWorkloadRequest { epoch: 0, ..whole.clone() }),
    ] {
        assert_eq!(paths(command::from_delete(&message)), [field]);
    }
    let at_fault = paths(command::from_stream(control::AgentCommand::default()));
    assert_eq!(at_fault, ["term", "session", "epoch", "workload_id", "action"]);
}

#[test]
fn a_call_without_tokens_is_somebody_elses() {
    let request = agent::ApplyWorkloadRequest { id: "w".into(), ..Default::default() };
    let said = command::from_apply(request).unwrap();
    assert!(matches!(said, Said::Legacy(draft) if draft.workload_id == "w"));
    let request = agent::DeleteWorkloadRequest { id: "w".into(), ..Default::default() };
    let said = command::from_delete(&request).unwrap();
    assert!(matches!(said, Said::Legacy(id) if id.as_str() == "w"));
}

#[test]
fn an_old_agent_is_called_without_tokens() {
    let remove = |purge| {
        let order = samples::command(&mut Random(2));
        command::to_legacy_call(&Command { order: Order::Remove { purge }, ..order })
    };
    let expected = agent::DeleteWorkloadRequest { id: "web".into(), ..Default::default() };
    assert_eq!(remove(true), Ok(Call::Delete(expected)));
    assert_eq!(paths(remove(false)), ["purge"]);
}

#[test]
fn an_answer_survives() {
    for answer in samples::answers() {
        let reply = answer::to_stream(&answer, Epoch(7), 40);
        assert_eq!(answer::from_stream(&reply), Ok((40, answer.clone())));
        let reply = answer::to_delete(&answer, Epoch(7));
        assert_eq!(answer::from_delete(&reply), Ok(Said::Ours(answer.clone())));
        let reply = answer::to_apply(&answer, Epoch(7));
        let expected = match answer {
            Answer::Removed { epoch } => Answer::Refused(Refusal::Buried { tombstone: epoch }),
            other @ (Answer::Accepted | Answer::Refused(_)) => other,
        };
        assert_eq!(answer::from_apply(&reply), Ok(Said::Ours(expected)));
    }
}

#[test]
fn an_answer_of_an_old_agent_is_its_own() {
    let reply = agent::ApplyWorkloadResponse {
        applied: true,
        skipped: true,
        message: "already applied".into(),
        ..Default::default()
    };
    let expected =
        LegacyAnswer { done: true, skipped: true, message: "already applied".into(), task: None };
    assert_eq!(answer::from_apply(&reply), Ok(Said::Legacy(expected)));
}

#[test]
fn an_old_agent_names_its_task_in_the_status_beside_its_answer() {
    let words = [("task_id", "task-1"), ("task_status", "pending")];
    let metadata = words.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let status = agent::WorkloadStatus { metadata, ..Default::default() };
    let reply =
        agent::ApplyWorkloadResponse { applied: true, status: Some(status), ..Default::default() };
    let Ok(Said::Legacy(old)) = answer::from_apply(&reply) else { panic!("{reply:?}") };
    assert_eq!(old.task, Some(("task-1".into(), TaskStatus::Pending)));
}

#[test]
fn a_task_that_cannot_be_read_does_not_spoil_its_message() {
    let mut message = beat::to_wire(&samples::beat(&mut Random(3)), WallMillis(1));
    let count = message.tasks.len();
    message.tasks.push(control::WorkloadTask { task_id: "x".into(), ..Default::default() });
    let arrived = beat::from_wire(message).unwrap();
    let Said::Ours(beat) = arrived.value else { panic!("ours") };
    assert_eq!(beat.tasks.len(), count);
}

#[test]
fn an_answer_that_contradicts_itself_is_refused() {
    let reply = |accepted, refusal: &str, epoch| control::AgentReply {
        accepted,
        refusal: refusal.into(),
        epoch,
        ..Default::default()
    };
    for (reply, path) in [
        (reply(true, "holding", 1), "accepted"),
        (reply(false, "", 1), "accepted"),
        (reply(false, "tired", 1), "refusal"),
        (reply(false, "old_epoch", 0), "epoch"),
        (reply(false, "old_term", 1), "term"),
        (reply(true, "", 0), "epoch"),
    ] {
        assert_eq!(paths(answer::from_stream(&reply)), [path], "{reply:?}");
    }
}
