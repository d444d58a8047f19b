//! Rules for compose stacks.

use super::*;
use crate::resources::Compute;
use crate::spec::check::{check_apply, check_unfetched, limits, wanted};
use crate::spec::compose::ComposeSource;
use crate::spec::draft::{ApplyDraft, Fetched};

/// `services: {a: {image: b}}` and a line end.
const PACKED: &str = "c2VydmljZXM6IHthOiB7aW1hZ2U6IGJ9fQo=";
const UNPACKED: &str = "services: {a: {image: b}}\n";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn text(draft: &Draft) -> String {
    compose_spec(draft).source.file().reveal().to_owned()
}

#[test]
fn a_file_comes_plain_or_as_base64() {
    let mut draft = compose_draft();
    assert!(text(&draft).starts_with("services: {web"));
    for packed in [PACKED, "c2Vydmlj\nZXM6IHthOiB7aW1hZ2U6\r\nIGJ9fQo=\n", &format!("  {PACKED}  ")]
    {
        *compose(&mut draft) =
            ComposeDraft { compose_yaml: packed.into(), ..ComposeDraft::default() };
        assert_eq!(text(&draft), UNPACKED, "{packed:?}");
    }
    *compose(&mut draft) = ComposeDraft { inline_yaml: PACKED.into(), ..ComposeDraft::default() };
    assert_eq!(text(&draft), UNPACKED);
}

#[test]
fn what_is_neither_is_refused() {
    let rows: &[Row<'_, ComposeDraft>] = &[
        ("word", |c| c.compose_yaml = "services".into(), &["spec.compose.compose_yaml"]),
        (
            "not padded",
            |c| c.compose_yaml = "c2VydmljZXM6IHt9Cg=".into(),
            &["spec.compose.compose_yaml"],
        ),
        ("not UTF-8", |c| c.compose_yaml = "/////w==".into(), &["spec.compose.compose_yaml"]),
        ("NUL inside", |c| c.compose_yaml = "YToAYg==".into(), &["spec.compose.compose_yaml"]),
        ("NUL", |c| c.compose_yaml = "a: \0".into(), &["spec.compose.compose_yaml"]),
        ("no key inside", |c| c.compose_yaml = "aGVsbG8=".into(), &["spec.compose.compose_yaml"]),
        ("blank", |c| c.compose_yaml = " \n".into(), &["spec.compose.compose_yaml"]),
        (
            "too long",
            |c| c.compose_yaml = format!("a: {}", long(limits::COMPOSE_BYTES)),
            &["spec.compose.compose_yaml"],
        ),
        (
            "far too long",
            |c| c.compose_yaml = long(2 * limits::COMPOSE_BYTES + 1),
            &["spec.compose.compose_yaml"],
        ),
    ];
    for (name, change, expected) in rows {
        let mut draft = compose_draft();
        compose(&mut draft).inline_yaml = String::new();
        change(compose(&mut draft));
        assert_eq!(paths_at_fault(&draft), *expected, "{name}");
    }
}

#[test]
fn the_source_is_said_once() {
    run(
        compose_draft,
        compose,
        &[
            ("inline", |c| c.source_type = "Inline".into(), &[]),
            ("unknown", |c| c.source_type = "s3".into(), &["spec.compose.source_type"]),
            ("git, but a file", |c| c.source_type = "git".into(), &["spec.compose.source_type"]),
            ("both files", |c| c.compose_yaml = PACKED.into(), &["spec.compose"]),
            ("both sources", |c| c.git_repo = "https://h/x".into(), &["spec.compose"]),
            ("ref without repository", |c| c.git_ref = "main".into(), &["spec.compose"]),
            ("path without repository", |c| c.git_path = "a".into(), &["spec.compose"]),
            ("nothing", |c| c.inline_yaml = String::new(), &["spec.compose"]),
            (
                "inline, nothing",
                |c| *c = ComposeDraft { source_type: "inline".into(), ..ComposeDraft::default() },
                &["spec.compose.inline_yaml"],
            ),
            (
                "inline, but git",
                |c| {
                    c.inline_yaml = String::new();
                    c.source_type = "inline".into();
                    c.git_repo = "https://h/x".into();
                },
                &["spec.compose.source_type"],
            ),
            (
                "git, nothing",
                |c| *c = ComposeDraft { source_type: "git".into(), ..ComposeDraft::default() },
                &["spec.compose.git_repo"],
            ),
            (
                "both wrong",
                |c| {
                    c.inline_yaml = String::new();
                    c.git_repo = "ext::sh -c x".into();
                    c.git_ref = "--upload-pack=x".into();
                },
                &["spec.compose.git_repo", "spec.compose.git_ref"],
            ),
        ],
    );
}

fn git_draft(repository: &str, reference: &str) -> Draft {
    let mut draft = compose_draft();
    *compose(&mut draft) = ComposeDraft {
        git_repo: repository.into(),
        git_ref: reference.into(),
        fetched: Some(Fetched {
            commit: COMMIT.into(),
            path: "compose.yaml".into(),
            file: UNPACKED.into(),
        }),
        ..ComposeDraft::default()
    };
    draft
}

fn fetched(draft: &mut Draft) -> &mut Fetched {
    compose(draft).fetched.as_mut().expect("a fetched file")
}

fn from_git() -> Draft {
    git_draft("https://h/x", "main")
}

#[test]
fn a_file_from_a_repository_is_pinned() {
    let spec = compose_spec(&from_git());
    let ComposeSource::Git { path, commit, file, .. } = &spec.source else { panic!("not git") };
    assert_eq!((&**path, &**commit, file.reveal()), ("compose.yaml", COMMIT, UNPACKED));
    run(
        from_git,
        fetched,
        &[
            ("longer", |f| f.commit = long(64), &[]),
            ("moved", |f| f.path = "deploy/stack.yml".into(), &[]),
            ("no commit", |f| f.commit = String::new(), &["spec.compose.git_repo"]),
            ("short", |f| f.commit = "0123456".into(), &["spec.compose.git_repo"]),
            ("a branch", |f| f.commit = "g".repeat(40), &["spec.compose.git_repo"]),
            ("nowhere", |f| f.path = String::new(), &["spec.compose.git_path"]),
            ("outside", |f| f.path = "../x".into(), &["spec.compose.git_path"]),
            ("no file", |f| f.file = String::new(), &["spec.compose.git_repo"]),
            ("control", |f| f.file.push('\0'), &["spec.compose.git_repo"]),
            ("refused", |f| f.file = "services: {}".into(), &["spec.compose.git_repo"]),
        ],
    );
    run(
        from_git,
        compose,
        &[
            ("not fetched", |c| c.fetched = None, &["spec.compose.git_repo"]),
            ("same path", |c| c.git_path = "compose.yaml".into(), &[]),
            ("another", |c| c.git_path = "other.yaml".into(), &["spec.compose.git_path"]),
        ],
    );
}

#[test]
fn paths_within_a_repository() {
    let put = |path: &str| {
        let mut draft = from_git();
        compose(&mut draft).git_path = path.into();
        fetched(&mut draft).path = path.into();
        draft
    };
    for good in ["compose.yaml", "deploy/prod/stack.yml", "a b/ü.yml", ".deploy/x"] {
        assert_eq!(paths_at_fault(&put(good)), [""; 0], "{good}");
    }
    let long = long(1025);
    for bad in [
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/../b",
        "./a",
        "-a",
        "a/--x",
        "a:b",
        "a\\b",
        "a\nb",
        ".git/config",
        &long,
    ] {
        assert_eq!(paths_at_fault(&put(bad)), ["spec.compose.git_path"], "{bad:?} was accepted");
    }
}

#[test]
fn what_has_to_be_fetched_is_known_before() {
    let mut draft = from_git();
    assert_eq!(wanted(&draft), None, "it is there");
    compose(&mut draft).fetched = None;
    compose(&mut draft).git_path = "a/b.yml".into();
    let found = wanted(&draft).expect("something to fetch");
    assert_eq!(
        (&*found.repository, &*found.reference, &*found.path),
        ("https://h/x", "main", "a/b.yml")
    );
    let asks = |draft: &Draft| ApplyDraft {
        workload_id: "w".into(),
        spec: Some(draft.clone()),
        ..ApplyDraft::default()
    };
    assert_eq!(check_unfetched(&asks(&draft)), Ok(()), "as far as shows");
    assert!(check_apply(&asks(&draft)).is_err(), "but not to be run");
    compose(&mut draft).project_name = "-x".into();
    assert!(check_unfetched(&asks(&draft)).is_err());
    compose(&mut draft).git_repo = "ext::sh".into();
    assert_eq!(wanted(&draft), None, "at fault");
    assert_eq!(check_unfetched(&asks(&draft)).expect_err("faults").count(), 2);
    assert_eq!(wanted(&compose_draft()), None);
    assert_eq!(wanted(&container_draft()), None);
}

#[test]
fn what_a_stack_takes_follows_from_its_file() {
    let mut draft = compose_draft();
    compose(&mut draft).inline_yaml = "
services:
  web:
    image: nginx
    ports: ['80:80', '53:53/udp', '127.0.0.1:8080:${PORT}']
    deploy: {replicas: 1, resources: {limits: {cpus: '0.5', memory: 100m}}}
  worker:
    image: busybox
    scale: 3
    deploy: {resources: {reservations: {memory: 1g}}}
    volumes: ['data:/data']
volumes: {data: {}}
"
    .into();
    compose(&mut draft).env.insert("PORT".into(), "81".into());
    let spec = accepted(&draft);
    let ports: Vec<_> = spec.host_ports().iter().map(ToString::to_string).collect();
    assert_eq!(ports, ["53/udp", "80/tcp", "8080/tcp"]);
    assert!(spec.keeps_local_data());
    assert_eq!(spec.resources.compute, Compute::new(500 + 3 * 100, 100 + 3 * 1024));
    draft.resources.memory_mb = 64;
    assert_eq!(accepted(&draft).resources.compute, Compute::new(800, 64), "what is said counts");
    compose(&mut draft).env.clear();
    assert!(problems(&draft).contains("line 5, services.web.ports[2]: "), "{}", problems(&draft));
}

#[test]
fn every_fault_of_a_file_is_named_with_its_line() {
    let mut draft = compose_draft();
    compose(&mut draft).inline_yaml =
        "services:\n  web:\n    build: .\n    volumes: [./a:/a]\n    prots: [80]\n".into();
    let text = problems(&draft);
    for expected in ["line 3, services.web.build: ", "line 4, ", "line 5, services.web.prots: "] {
        assert!(text.contains(expected), "{text}");
    }
    let many = (0..200).map(|n| format!("    bad{n}: x\n")).collect::<Vec<_>>().concat();
    compose(&mut draft).inline_yaml = format!("services:\n  web:\n    image: x\n{many}");
    assert!(problems(&draft).ends_with("and 136 more"), "{}", problems(&draft));
}

#[test]
fn repositories() {
    for good in [
        "https://github.com/a/b.git",
        "https://git.example:8443/a/b",
        "ssh://git@host.example/a/b.git",
        "ssh://git@[2001:db8::1]:22/a",
        "git@github.com:a/b.git",
        "file:///srv/git/a.git",
        // Whether it is allowed is said by who fetches.
        "http://127.0.0.1:8000/a.git",
    ] {
        let spec = compose_spec(&git_draft(good, ""));
        assert!(
            matches!(spec.source, ComposeSource::Git { repository, .. } if &*repository == good)
        );
    }
    let long = format!("https://h/{}", long(1020));
    for bad in [
        "-x",
        "--upload-pack=touch x",
        "ext::sh -c id",
        "git://host/a",
        "ftp://host/a",
        "file://host/a",
        "file://",
        "/srv/git/a",
        "a/b",
        "https://",
        "https://host",
        "https://host/",
        "https://-oProxyCommand=x/a",
        "ssh://-oProxyCommand=x/a",
        "ssh://git@-o/a",
        "-git@host:a",
        "git@-host:a",
        "git@host:-a",
        "git@host:",
        "git@host:a/../b",
        "https://host/a/../b",
        "https://host/a b",
        "https://host/a\nb",
        "https://host/a\0",
        "https://host/a?x=1",
        "https://host/a#main",
        "https://host/$(id)",
        "https://host:0/a",
        "https://ho_st/a",
        "https://tokén@host/a",
        &long,
    ] {
        let found = paths_at_fault(&git_draft(bad, ""));
        assert_eq!(found, ["spec.compose.git_repo"], "{bad:?} was accepted");
    }
}

#[test]
fn credentials_in_an_address_are_refused_and_not_repeated() {
    for bad in [
        "https://user:hunter2@host/a",
        "https://hunter2@host/a",
        "ssh://git:hunter2@host/a",
        "git:hunter2@host:a",
    ] {
        let text = problems(&git_draft(bad, ""));
        assert!(text.contains("credentials") && !text.contains("hunter2"), "{bad}: {text}");
    }
}

#[test]
fn references() {
    for good in ["", "main", "v1.2.3", "feature/x_y-z", "0af3c9"] {
        assert_eq!(paths_at_fault(&git_draft("https://h/x", good)), [""; 0], "{good}");
    }
    let long = long(256);
    for bad in [
        "-x",
        "--upload-pack=x",
        "/a",
        "a/",
        "a..b",
        "a//b",
        ".a",
        "a/.b",
        "a.",
        "a.lock",
        "a.lock/b",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "a\0",
        "@{u}",
        "ä",
        &long,
    ] {
        let found = paths_at_fault(&git_draft("https://h/x", bad));
        assert_eq!(found, ["spec.compose.git_ref"], "{bad:?} was accepted");
    }
}

#[test]
fn projects_and_environments() {
    run(
        compose_draft,
        compose,
        &[
            ("project", |c| c.project_name = "my_app-1".into(), &[]),
            ("capital", |c| c.project_name = "App".into(), &["spec.compose.project_name"]),
            ("sign first", |c| c.project_name = "-a".into(), &["spec.compose.project_name"]),
            ("dot", |c| c.project_name = "a.b".into(), &["spec.compose.project_name"]),
            ("parent", |c| c.project_name = "..".into(), &["spec.compose.project_name"]),
            ("too long", |c| c.project_name = long(64), &["spec.compose.project_name"]),
            ("variable", |c| drop(c.env.insert("DATABASE_URL".into(), "a=b c".into())), &[]),
            ("line", |c| drop(c.env.insert("A".into(), "a\nB=c".into())), &["spec.compose.env[A]"]),
            ("return", |c| drop(c.env.insert("A".into(), "a\rb".into())), &["spec.compose.env[A]"]),
            (
                "compose's own",
                |c| drop(c.env.insert("COMPOSE_FILE".into(), "x".into())),
                &["spec.compose.env[COMPOSE_FILE]"],
            ),
            (
                "docker's own",
                |c| drop(c.env.insert("DOCKER_HOST".into(), "x".into())),
                &["spec.compose.env[DOCKER_HOST]"],
            ),
            (
                "the linker's",
                |c| drop(c.env.insert("LD_PRELOAD".into(), "x".into())),
                &["spec.compose.env[LD_PRELOAD]"],
            ),
            (
                "git's",
                |c| drop(c.env.insert("GIT_DIR".into(), "x".into())),
                &["spec.compose.env[GIT_DIR]"],
            ),
            (
                "path",
                |c| drop(c.env.insert("PATH".into(), "x".into())),
                &["spec.compose.env[PATH]"],
            ),
        ],
    );
}
