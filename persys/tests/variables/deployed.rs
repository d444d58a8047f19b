//! The program as the documents have it started: from `bin`, by its names, with certificates of `make dev-certs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Folder, Program, ends, ready_node};

fn hack(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack").join(name)
}

/// Runs a script, which has to end well; what it prints.
fn runs(script: &str, words: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(hack(script));
    let output = command.args(words).envs(variables.iter().copied()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// A program of `bin`, with these variables alone.
fn starts(folder: &Folder, name: &str, words: &[&str], variables: &[(&str, &str)]) -> Program {
    let mut command = Command::new(folder.path().join("bin").join(name));
    command.env_clear().env("LOG_FORMAT", "text").env("NO_COLOR", "1");
    command.args(words).envs(variables.iter().copied());
    Program::spawn(folder.path(), command)
}

#[test]
fn certificates_for_trying_serve_what_is_started_by_its_names() {
    let folder = Folder::new();
    let (bin, certs) = (folder.at("bin"), folder.at("certs"));
    let program = env!("CARGO_BIN_EXE_persys");
    runs("bin-links", &[program, &bin], &[]);
    let told = runs("dev-certs", &[program, &certs], &[("NODE", "n1")]);
    assert!(told.contains("PERSYS_TLS_CERT="), "{told}");
    let file = |name: &str| format!("{certs}/{name}");
    let (ca, crt, key) = (
        file("persys-scheduler/ca.pem"),
        file("persys-scheduler/persys_scheduler.crt"),
        file("persys-scheduler/persys_scheduler-key.key"),
    );
    let state = folder.at("scheduler");
    let variables = [
        ("PERSYS_TLS_CA", ca.as_str()),
        ("PERSYS_TLS_CERT", &crt),
        ("PERSYS_TLS_KEY", &key),
        ("PERSYS_STATE_DIR", &state),
        ("GRPC_PORT", "0"),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_PORT", "0"),
    ];
    let mut scheduler = starts(&folder, "persys-scheduler", &[], &variables);
    let at = format!("127.0.0.1:{}", scheduler.at("grpc").port());
    let (ca, crt, key) = (file("ca.crt"), file("agent.crt"), file("agent.key"));
    let state = folder.at("state.db");
    let variables = [
        ("PERSYS_TLS_CA", ca.as_str()),
        ("PERSYS_TLS_CERT", &crt),
        ("PERSYS_TLS_KEY", &key),
        ("PERSYS_STATE_PATH", &state),
        ("PERSYS_NODE_ID", "n1"),
        ("PERSYS_SCHEDULER_ADDR", &at),
        ("PERSYS_GRPC_PORT", "0"),
        ("PERSYS_METRICS_PORT", "0"),
    ];
    let _agent = starts(&folder, "persys-agent", &["--runtime", "sim"], &variables);
    let way = format!("--identity {} --endpoint {at}", file("admin.pem"));
    assert_eq!(ready_node(&folder, &way)["node_id"], "n1");
    assert!(folder.path().join("agent").is_dir(), "state.db is the folder agent beside it");
    // Again: the authority stays, what was issued before is still believed.
    runs("dev-certs", &[program, &certs], &[("NODE", "n1")]);
    let words: Vec<_> = ["nodes"].into_iter().chain(way.split(' ')).collect();
    let (code, out, err) = ends(&words, &[("PERSYS_HOME", &folder.at("home"))]);
    assert_eq!(code, 0, "{out}{err}");
}

/// Every target that the documents name is one.
#[test]
fn every_documented_target_of_make_is_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let makes = |words: &[&str]| {
        let mut command = Command::new("make");
        command.current_dir(&root).env_remove("MAKEFLAGS").env_remove("REGISTRY");
        let output = command.args(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let documented = [
        "deps",
        "build",
        "proto",
        "dev-certs",
        "build-linux",
        "test",
        "fmt",
        "lint",
        "docker-build",
        "docker-push",
        "help",
    ];
    let (code, help) = makes(&["--no-print-directory", "help"]);
    assert_eq!(code, Some(0), "{help}");
    for target in documented {
        let named = help.lines().any(|line| line.split_whitespace().next() == Some(target));
        assert!(named, "{target} is not in `make help`:\n{help}");
        if target == "test" {
            // Parts of it are makes of their own, which a dry run starts.
            continue;
        }
        let (code, told) = makes(&["--dry-run", target, "REGISTRY=127.0.0.1:1"]);
        assert_eq!(code, Some(0), "{target}: {told}");
        assert!(!told.contains("Nothing to be done"), "{target}: {told}");
    }
    let (code, told) = makes(&["docker-push"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("make docker-push REGISTRY="), "{told}");
}
