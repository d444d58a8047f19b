//! What hostile input gets: a reason, and no effect on the host.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use persys_git::Error;

use crate::repository::{Bench, Repo, source};
use crate::server::{Manner, Server};

#[tokio::test]
async fn hostile_words_never_reach_git() {
    let repo = Repo::with("compose.yaml", "a: b\n");
    let folder = tempfile::tempdir().unwrap();
    let trap = folder.path().join("sprung").display().to_string();
    let sound = repo.address();
    let touch = format!("touch {trap}");
    let mut cases: Vec<(String, String, String)> = Vec::new();
    for address in [
        format!("--upload-pack={touch}"),
        format!("-u{touch}"),
        format!("ext::sh -c {touch}"),
        format!("ext::/usr/bin/touch%20{trap}"),
        format!("fd::17 {trap}"),
        format!("ssh://-oProxyCommand={}/x", touch.replace(' ', "${IFS}")),
        format!("ssh://git@-oProxyCommand=x/{trap}"),
        format!("git@-oProxyCommand=x:{trap}"),
        format!("https://host/$({touch})"),
        format!("https://host/`{touch}`"),
        format!("file://host{trap}"),
        format!("{sound}\n--upload-pack={touch}"),
        format!("{sound};{touch}"),
        "git://127.0.0.1/x".to_owned(),
        "/etc".to_owned(),
        "../..".to_owned(),
        "https://me:s3cret@host/x".to_owned(),
        String::new(),
    ] {
        cases.push((address, String::new(), String::new()));
    }
    for reference in [
        "--exec=x",
        "--upload-pack=x",
        "-u",
        "a..b",
        "a:b",
        "+main:refs/heads/x",
        "main~1",
        "a b",
        "a\nb",
        "@{upstream}",
        "HEAD^{tree}",
        "*",
        "refs/heads/*",
        ".lock/x.lock",
        "a\\b",
    ] {
        cases.push((sound.clone(), reference.to_owned(), String::new()));
    }
    for path in [
        "../compose.yaml",
        "/etc/passwd",
        "a/../../x",
        "-p",
        "--output=x",
        ":(top)compose.yaml",
        ":!x",
        ".git/config",
        "a\0b",
        "a//b",
        "./compose.yaml",
    ] {
        cases.push((sound.clone(), String::new(), path.to_owned()));
    }
    let bench = Bench::new();
    let fetcher = bench.fetcher();
    for (address, reference, path) in &cases {
        let error = fetcher.fetch(&source(address, reference, path)).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{address:?} {reference:?} {path:?}: {error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        assert!(!std::fs::exists(&trap).unwrap(), "{address:?} {reference:?} {path:?}");
    }
    assert!(bench.left().is_empty());
}

#[tokio::test]
async fn only_a_regular_file_is_read() {
    let repo = Repo::with("folder/compose.yaml", "a: b\n");
    let inner = Repo::with("x", "y");
    std::os::unix::fs::symlink("/etc/passwd", repo.path().join("compose.yaml")).unwrap();
    std::os::unix::fs::symlink("/etc", repo.path().join("etc")).unwrap();
    repo.commit_all();
    let head = inner.git(&["rev-parse", "HEAD"]);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    repo.git(&["commit", "--quiet", "--message=x"]);
    let bench = Bench::new();
    let fetcher = bench.fetcher();
    for (path, words) in [
        ("", "compose.yaml is a symbolic link"),
        ("compose.yaml", "is a symbolic link"),
        ("etc/passwd", "there is no etc/passwd"),
        ("folder", "is a folder"),
        ("sub", "is a submodule"),
        ("sub/x", "there is no sub/x"),
        ("absent.yaml", "there is no absent.yaml"),
    ] {
        let error = fetcher.fetch(&repo.source("", path)).await.unwrap_err().to_string();
        assert!(error.contains(words), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_submodule_is_never_followed_and_hooks_never_run() {
    let folder = tempfile::tempdir().unwrap();
    let trap = folder.path().join("sprung");
    let repo = Repo::with("compose.yaml", "a: b\n");
    repo.commit(
        ".gitmodules",
        "[submodule \"x\"]\n\tpath = x\n\turl = https://127.0.0.1:1/x\n\tupdate = checkout\n",
    );
    repo.commit(".gitattributes", "* filter=trap\n");
    for hook in [
        "post-checkout",
        "post-merge",
        "pre-receive",
        "update",
        "post-update",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
    ] {
        let path = repo.path().join(".git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\ntouch {}\n", trap.display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let touch = format!("touch {}", trap.display());
    repo.git(&["config", "core.fsmonitor", &touch]);
    repo.git(&["config", "filter.trap.smudge", &touch]);
    repo.git(&["config", "uploadpack.packObjectsHook", &touch]);
    repo.git(&["config", "core.sshCommand", &touch]);
    let bench = Bench::new();
    let found = bench.fetcher().fetch(&repo.source("", "")).await.unwrap();
    assert_eq!(found.file, "a: b\n");
    assert!(!trap.exists());
}

#[tokio::test]
async fn what_is_too_large_is_given_up() {
    let repo = Repo::with("compose.yaml", &"# x\n".repeat(80_000));
    let mut bench = Bench::new();
    // Whether or not the server leaves large files out.
    for filter in ["false", "true"] {
        repo.git(&["config", "uploadpack.allowFilter", filter]);
        let error = bench.fetcher().fetch(&repo.source("", "")).await.unwrap_err();
        assert!(matches!(error, Error::FileTooLarge { .. }), "{filter}: {error}");
    }
    repo.git(&["config", "uploadpack.allowFilter", "false"]);
    let mut noise = vec![0_u8; 6_000_000];
    getrandom::fill(&mut noise).unwrap();
    std::fs::write(repo.path().join("noise"), noise).unwrap();
    repo.commit("small.yaml", "a: b\n");
    assert_eq!(bench.fetcher().fetch(&repo.source("", "small.yaml")).await.unwrap().file, "a: b\n");
    bench.settings.limits.folder_bytes = 1_000_000;
    let error = bench.fetcher().fetch(&repo.source("", "small.yaml")).await.unwrap_err();
    assert!(matches!(error, Error::RepositoryTooLarge { .. }), "{error}");
    assert!(bench.left().is_empty());
    let binary = Repo::new();
    std::fs::write(binary.path().join("compose.yaml"), [0xff, 0xfe, 0]).unwrap();
    binary.commit_all();
    let error = bench.fetcher().fetch(&binary.source("", "")).await.unwrap_err();
    assert!(matches!(error, Error::NotText { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_is_silent_or_sends_elsewhere_holds_nobody_up() {
    let repo = Repo::with("compose.yaml", "a: b\n");
    let silent = Server::start(repo.path(), Manner { silent: true, ..Manner::default() }).await;
    let mut bench = Bench::new();
    bench.settings.limits.deadline = Duration::from_secs(1);
    bench.settings.limits.at_a_time = 1;
    let fetcher = bench.fetcher();
    let wanted = source(&format!("{}/.git", silent.origin), "", "");
    let begun = Instant::now();
    let (one, other) = tokio::join!(fetcher.fetch(&wanted), fetcher.fetch(&wanted));
    assert!(begun.elapsed() < Duration::from_secs(8));
    let errors = [one.unwrap_err(), other.unwrap_err()];
    assert!(matches!(errors[0], Error::Deadline { .. }), "{}", errors[0]);
    assert!(matches!(errors[1], Error::Busy { .. } | Error::Deadline { .. }), "{}", errors[1]);
    assert!(errors.iter().all(Error::may_pass) && bench.left().is_empty());

    let inner = Server::start(repo.path(), Manner::default()).await;
    let to = format!("{}/.git/info/refs?service=git-upload-pack", inner.origin);
    let manner = Manner { redirect: Some(to), ..Manner::default() };
    let outer = Server::start(repo.path(), manner).await;
    let bench = Bench::new();
    let wanted = source(&format!("{}/.git", outer.origin), "", "");
    let error = bench.fetcher().fetch(&wanted).await.unwrap_err().to_string();
    assert!(error.contains("fetching the commit failed"), "{error}");
    assert!(inner.heard.lock().unwrap().is_empty(), "nobody is led to another host");
}

#[tokio::test]
async fn what_an_earlier_life_left_is_removed() {
    let bench = Bench::new();
    let left = bench.settings.scratch.join("0123");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("x"), "y").unwrap();
    let _fetcher = bench.fetcher();
    assert!(bench.left().is_empty());
}
