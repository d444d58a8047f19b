//! Compose files out of repositories, from the request to what the agent is told to run: served over
//! http by git itself, pinned to a commit, moved by a new one, and refused with the reason.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]

#[path = "../../../adapters/git/tests/fetch/server.rs"]
#[allow(dead_code, reason = "the tests of the fetcher use more of it")]
mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use persys_e2e::git::git;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_model::id::WorkloadId;
use persys_model::spec::Kind;
use persys_model::spec::compose::ComposeSource;
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use persys_proto::control::v1::workload_spec::Workload;
use server::{Manner, Server};
use tonic::transport::Channel;

const PATIENCE: Duration = Duration::from_secs(20);

/// A commit with this file.
fn commit(folder: &Path, path: &str, text: &str) -> String {
    let file = folder.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message=x"]);
    git(folder, &["rev-parse", "HEAD"])
}

fn file(image: &str) -> String {
    format!("services:\n  web:\n    image: {image}\n")
}

fn request(id: &str, repository: &str, reference: &str, path: &str) -> wire::ApplyWorkloadRequest {
    let compose = wire::ComposeSpec {
        source_type: "git".to_owned(),
        git_repo: repository.to_owned(),
        git_ref: reference.to_owned(),
        git_path: path.to_owned(),
        ..wire::ComposeSpec::default()
    };
    wire::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        spec: Some(wire::WorkloadSpec {
            r#type: "compose".to_owned(),
            workload: Some(Workload::Compose(compose)),
            ..wire::WorkloadSpec::default()
        }),
        ..wire::ApplyWorkloadRequest::default()
    }
}

/// Commit and file that are recorded of a workload, and its revision.
async fn pinned(stack: &Stack, id: &str) -> (String, String, String) {
    let id = WorkloadId::new(id).unwrap();
    let look = move |world: &persys_cluster::world::World| {
        let view = world.workload(&id).unwrap();
        let Kind::Compose(compose) = &view.workload.spec.kind else { panic!("no stack") };
        let ComposeSource::Git { commit, file, .. } = &compose.source else { panic!("no source") };
        let revision = view.workload.revision.to_string();
        (commit.to_string(), file.reveal().to_owned(), revision)
    };
    stack.scheduler.handle.read(look).await.unwrap()
}

async fn until_runs(client: &mut AgentControlClient<Channel>, id: &str, revision: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let request = wire::GetWorkloadRequest { workload_id: id.to_owned() };
        let view = client.get_workload(request).await.unwrap().into_inner().workload.unwrap();
        if view.status == "Running" && view.revision_id == revision {
            return;
        }
        assert!(Instant::now() < deadline, "{view:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_follows_the_commits_somebody_applies() {
    let mut stack = Stack::start(Wire::Mtls).await;
    stack.add_agent("n1").await;
    let mut client = AgentControlClient::new(stack.channel(Role::Operator, "me").await);
    let repo = tempfile::tempdir().unwrap();
    git(repo.path(), &["init", "--quiet", "--initial-branch=main", "."]);
    let first = commit(repo.path(), "deploy/stack.yaml", &file("web:1"));
    let server = Server::start(repo.path(), Manner::default()).await;
    let address = format!("{}/.git", server.origin);
    let wanted = request("shop", &address, "main", "deploy/stack.yaml");

    let applied = client.apply_workload(wanted.clone()).await.unwrap().into_inner();
    assert!(applied.success, "{}", applied.error_message);
    let (commit_then, text, revision) = pinned(&stack, "shop").await;
    assert_eq!((commit_then, text), (first, file("web:1")));
    until_runs(&mut client, "shop", &revision).await;

    // Somebody pushes: nothing moves until somebody applies.
    let second = commit(repo.path(), "deploy/stack.yaml", &file("web:2"));
    assert_eq!(pinned(&stack, "shop").await.2, revision);
    let applied = client.apply_workload(wanted.clone()).await.unwrap().into_inner();
    assert!(applied.success, "{}", applied.error_message);
    let (commit_now, text, newer) = pinned(&stack, "shop").await;
    assert_eq!((commit_now, text), (second, file("web:2")));
    assert_ne!(newer, revision, "a new commit is a new revision");
    until_runs(&mut client, "shop", &newer).await;

    // The same commit again changes nothing.
    client.apply_workload(wanted).await.unwrap();
    assert_eq!(pinned(&stack, "shop").await.2, newer);
    stack.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_fetched_is_refused_with_the_reason_and_leaves_nothing() {
    let stack = Stack::start(Wire::Mtls).await;
    let mut client = AgentControlClient::new(stack.channel(Role::Operator, "me").await);
    let folder = tempfile::tempdir().unwrap();
    let trap = folder.path().join("sprung");
    let touch = format!("touch {}", trap.display());
    git(folder.path(), &["init", "--quiet", "--initial-branch=main", "."]);
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.yaml")).unwrap();
    commit(
        folder.path(),
        "compose.yaml",
        "services:\n  web:\n    image: x\n    env_file: /etc/passwd\n",
    );
    let sound = format!("file://{}", folder.path().display());
    let before = stack.head().await;
    for (repository, reference, path, words) in [
        (format!("--upload-pack={touch}"), "", "", "spec.compose.git_repo"),
        (format!("ext::sh -c {touch}"), "", "", "spec.compose.git_repo"),
        (format!("-u{touch}"), "", "", "spec.compose.git_repo"),
        ("https://me:s3cret@host/x".to_owned(), "", "", "carries credentials"),
        (sound.clone(), "--exec", "", "spec.compose.git_ref"),
        (sound.clone(), "", "../../etc/passwd", "spec.compose.git_path"),
        (sound.clone(), "", "link.yaml", "is a symbolic link"),
        (sound.clone(), "", "absent.yaml", "there is no absent.yaml"),
        (sound.clone(), "no-such-branch", "", "name a branch or tag that exists"),
        ("http://127.0.0.1:1/x".to_owned(), "", "", "fetching the commit failed"),
        (sound.clone(), "", "compose.yaml", "env_file"),
        (String::new(), "", "", "spec.compose.git_repo"),
    ] {
        let asked = request("shop", &repository, reference, path);
        let answer = client.apply_workload(asked).await.unwrap().into_inner();
        assert!(!answer.success, "{repository} {reference} {path}");
        let said = answer.error_message;
        assert!(said.contains(words), "{repository} {reference} {path}: {said}");
        assert!(!said.contains("s3cret") && !trap.exists(), "{said}");
    }
    assert_eq!(stack.head().await, before, "nothing was stored");
    stack.stop().await;
}
