//! A child dies with the process that runs it, also when that one is killed without a word.
//!
//! This program is the test and the process that is killed, by its first argument.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use persys_process::{Child, run};

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a child that says its number and then never ends.
fn parent(said: &str) {
    let child = Child {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".to_owned(), format!("echo $$ > {said}; exec sleep 1000")],
        env: BTreeMap::new(),
        folder: PathBuf::from("/"),
        deadline: Duration::from_mins(10),
        output_limit: 0,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // On a thread of the runtime, as everything in an agent is.
    let ended = runtime.block_on(async { tokio::spawn(async move { run(&child).await }).await });
    println!("{ended:?}");
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::yield_now();
    }
}

/// Whether it lives. A zombie has ended.
fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some("parent"), Some(said)) = (arguments.next().as_deref(), arguments.next()) {
        return parent(&said);
    }
    let said = std::env::temp_dir().join(format!("persys-death-{}", std::process::id()));
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["parent", &said.display().to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = until("the child says its number", || {
        let text = std::fs::read_to_string(&said).unwrap_or_default();
        text.strip_suffix('\n').map(str::to_owned)
    });
    assert!(lives(&pid));
    process.kill().unwrap();
    process.wait().unwrap();
    until("the child is dead", || (!lives(&pid)).then_some(()));
    let told = BufReader::new(process.stdout.take().unwrap()).lines().count();
    assert_eq!(told, 0, "it was killed before it could say anything");
    std::fs::remove_file(&said).unwrap();
    println!("test a_child_dies_with_a_killed_parent ... ok");
}
