//! A stack out of a repository that is served over http: typed, moved by commits, never left broken.

#[path = "../../../../adapters/git/tests/fetch/server.rs"]
#[allow(dead_code, reason = "the tests of the fetcher use more of it")]
mod server;

use std::path::Path;
use std::time::{Duration, Instant};

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::git::git;
use persys_e2e::processes::Stack;

use self::server::{Manner, Server};
use crate::stacks::{moments, stack};
use crate::typed::{done, typed};

/// A commit of the stack: a database that counts its starts on its volume, a service that needs it,
/// and one that needs that.
fn commit(folder: &Path, version: &str, middle: &str) -> String {
    let count = "trap 'exit 0' TERM; n=$$(cat /data/n || echo 0); echo $$((n + 1)) > /data/n; \
                 sleep 1000 & wait";
    let stay = "trap 'exit 0' TERM; sleep 1000 & wait";
    let text = format!(
        "services:\n\
         \x20 db:\n    image: {IMAGE}\n    command: [sh, -c, \"{count}\"]\n    restart: always\n    \
         environment: {{VERSION: '{version}'}}\n    volumes: ['data:/data']\n\
         \x20 api:\n    image: {middle}\n    command: [sh, -c, \"{stay}\"]\n    restart: always\n    \
         depends_on: [db]\n\
         \x20 web:\n    image: {IMAGE}\n    command: [sh, -c, \"{stay}\"]\n    restart: always\n    \
         depends_on: [api]\n\
         volumes: {{data: {{}}}}\n"
    );
    let file = folder.join("deploy/stack.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message=x"]);
    git(folder, &["rev-parse", "HEAD"])
}

/// What is on the volume of the database.
async fn counted(stack: &Stack) -> String {
    let engine = Engine::shared();
    let filter = format!("label=persys.cluster={}", stack.cluster);
    let service = "label=com.docker.compose.service=db";
    let db = engine.docker(&["ps", "-q", "--filter", &filter, "--filter", service]);
    let deadline = Instant::now() + persys_e2e::processes::PATIENCE;
    loop {
        let said = engine.docker(&["exec", &db, "sh", "-c", "cat /data/n || true"]);
        if !said.is_empty() {
            return said;
        }
        assert!(Instant::now() < deadline, "nothing was counted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_stack_follows_its_repository_and_survives_a_bad_commit() {
    let mut stack = stack().await;
    let id = stack.id("shop");
    let repo = tempfile::tempdir().unwrap();
    git(repo.path(), &["init", "--quiet", "--initial-branch=main", "."]);
    commit(repo.path(), "1", IMAGE);
    let server = Server::start(repo.path(), Manner::default()).await;
    let file = format!(
        "apiVersion: persys.io/v1\nkind: Workload\nmetadata: {{name: {id}}}\nspec:\n  type: compose\n  \
         git: {{url: '{}/.git', ref: main, path: deploy/stack.yaml}}\n  resources: {{cpu: 60m, \
         memoryMb: 96}}\n",
        server.origin
    );

    let printed = done(&stack, "apply -", &file).await;
    assert!(printed.contains("runs on node n1"), "{printed}");
    let first = moments(&stack, &id).await;
    assert_eq!((first.len(), &*counted(&stack).await), (3, "1"));

    // A new commit is taken when somebody applies; data goes with it.
    commit(repo.path(), "2", IMAGE);
    assert_eq!(moments(&stack, &id).await, first, "nobody asked yet");
    done(&stack, "apply -", &file).await;
    let second = moments(&stack, &id).await;
    assert_ne!(second, first);
    assert_eq!((second.len(), &*counted(&stack).await), (3, "2"));
    let good = stack.look(&id).await.unwrap().unwrap().revision_id;

    // A bad image in the middle, and what it needs is new as well: all of it is as it was before.
    commit(repo.path(), "3", "127.0.0.1:1/none:1");
    let said = typed(&stack, "apply -", &file).await;
    assert_ne!(said.code, 0, "{said:?}");
    let told = format!("{}{}", said.printed, said.remarked);
    assert!(told.contains("127.0.0.1:1/none:1"), "{told}");
    assert!(told.contains("revision 2 runs on"), "{good} is the second: {told}");
    assert_eq!(moments(&stack, &id).await, second, "nothing was touched");
    assert_eq!(counted(&stack).await, "2");

    commit(repo.path(), "4", IMAGE);
    done(&stack, "apply -", &file).await;
    assert_eq!((moments(&stack, &id).await.len(), &*counted(&stack).await), (3, "3"));
    done(&stack, &format!("delete {id} --volumes --yes"), "").await;
    stack.delete(&id).await;
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);
    let furniture = Engine::shared().furniture().await;
    assert!(!furniture.iter().any(|name| name.contains(&stack.cluster)), "{furniture:?}");
}
