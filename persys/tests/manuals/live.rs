//! The first five minutes, with real containers. Needs Docker, so it runs only when it is named.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]
#![allow(dead_code, reason = "the other suite plays more pages")]

#[cfg(test)]
mod compare;
#[cfg(test)]
mod page;
#[cfg(test)]
mod play;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod stage;

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use crate::page::Page;
    use crate::play::play;
    use crate::stage::{Runtime, Stage};

    /// Both use images under names of the host, and remove those they made.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Whatever `dev down` ends is asked to end first, and says its last line.
    #[test]
    fn dev_down_asks_a_container_and_a_stack_to_stop() {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stage = Stage::set(None, Runtime::Docker);
        let image = "persys-test/busybox:1";
        let script =
            "trap 'sleep 1; echo asked; exit 0' TERM; echo up; while :; do sleep 0.1; done";
        let file = format!(
            "services:\n  web:\n    image: {image}\n    command: [sh, -c, \"{script}\"]\n    volumes: \
             ['data:/data']\nvolumes: {{data: {{}}}}\n"
        );
        let mut done = |command: &str, input: Option<&str>| {
            let (code, printed) = stage.shell.types(command, input);
            assert_eq!(code, 0, "{command}: {printed}");
            printed
        };
        let ports = "--port 0 --http 0 --agent-port 0 --dns-port 0 --enrol-port 0 --gateway-port 0";
        done(&format!("persys dev --background {ports}"), None);
        // Other tests share the daemon: names of its containers are the host's.
        let (one, several) =
            (format!("one-{}", std::process::id()), format!("several-{}", std::process::id()));
        done(&format!("persys run {image} --name {one} -- sh -c \"{script}\""), None);
        done(&format!("persys apply - --id {several}"), Some(&file));
        let mut logs = Vec::new();
        for id in [&one, &several] {
            let found = format!("docker ps -q --filter label=persys.workload_id={id}");
            let container = done(&found, None);
            let container = container.trim();
            done(&format!("until docker logs {container} | grep -q up; do sleep 0.1; done"), None);
            done(&format!("docker logs --follow {container} >'{id}.log' 2>&1 &"), None);
            logs.push(format!("{id}.log"));
        }
        done("persys dev down", None);
        for log in logs {
            let said = done(&format!("cat '{log}'"), None);
            assert!(said.contains("up\nasked"), "{log}: {said:?}");
        }
        let volumes = format!("docker volume ls -q --filter label=persys.workload_id={several}");
        assert_eq!(done(&volumes, None).trim(), "", "it leaves nothing behind");
    }

    #[test]
    fn the_first_five_minutes_are_true_on_docker() {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let page = Page::read("docs/start.md");
        let played = play(&page, Runtime::Docker);
        played.tell("docs/start.md on Docker");
        assert!(played.ran > 5 && played.excused.len() < 4, "{played:?}");
    }
}
