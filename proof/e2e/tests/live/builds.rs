//! An image that a Compose file builds is built where it is typed, and runs.

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::Stack;

use crate::program;
use crate::typed::{done, typed};

#[tokio::test]
async fn a_service_is_built_where_its_file_is_applied_and_runs() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let (id, folder, docker) = (stack.id("shop"), stack.folder_of("project"), Engine::shared());
    let image = format!("{id}-web");
    std::fs::create_dir_all(folder.join("app")).unwrap();
    let dockerfile = |word: &str| {
        let text = format!("FROM {IMAGE}\nARG GREETING\nRUN echo $GREETING {word} > /word\n");
        std::fs::write(folder.join("app/Dockerfile"), text).unwrap();
    };
    dockerfile("one");
    let file = "services:\n  web:\n    build: {context: app, args: {GREETING: hello}}\n    \
                command: [sh, -c, \"trap 'exit 0' TERM; cat /word; sleep 1000 & wait\"]\n    \
                restart: always\n";
    std::fs::write(folder.join("compose.yaml"), file).unwrap();
    let apply = format!("apply {} --id {id}", folder.join("compose.yaml").display());

    let refused = typed(&stack, &format!("{apply} --no-build --timeout 20s"), "").await;
    assert_ne!(refused.code, 0, "nobody built it: {refused:?}");
    done(&stack, &apply, "").await;
    stack.until_status(&id, "Running").await;
    let logs = done(&stack, &format!("logs {id}"), "").await;
    assert!(logs.contains("hello one"), "{logs}");

    // What is there is used; with --build it is built again, and is another revision.
    dockerfile("two");
    done(&stack, &apply, "").await;
    assert_eq!(done(&stack, &format!("exec {id}/web cat /word"), "").await.trim(), "hello one");
    done(&stack, &format!("{apply} --build"), "").await;
    assert_eq!(done(&stack, &format!("exec {id}/web cat /word"), "").await.trim(), "hello two");
    stack.delete(&id).await;
    docker.docker(&["rmi", "-f", &image]);
}
