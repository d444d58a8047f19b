//! Rules for compose stacks.

use super::*;
use crate::spec::check::limits;
use crate::spec::compose::ComposeSource;

/// `services: {}` and a line end.
const PACKED: &str = "c2VydmljZXM6IHt9Cg==";

fn text(draft: &Draft) -> String {
    match compose_spec(draft).source {
        ComposeSource::Inline(text) => text.reveal().to_owned(),
        ComposeSource::Git { .. } => panic!("not inline"),
    }
}

#[test]
fn a_file_comes_plain_or_as_base64() {
    let mut draft = compose_draft();
    assert!(text(&draft).starts_with("services: {web"));
    for packed in [PACKED, "c2Vydmlj\nZXM6IHt9\r\nCg==\n", &format!("  {PACKED}  ")] {
        *compose(&mut draft) =
            ComposeDraft { compose_yaml: packed.into(), ..ComposeDraft::default() };
        assert_eq!(text(&draft), "services: {}\n", "{packed:?}");
    }
    *compose(&mut draft) = ComposeDraft { inline_yaml: PACKED.into(), ..ComposeDraft::default() };
    assert_eq!(text(&draft), "services: {}\n");
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
        ..ComposeDraft::default()
    };
    draft
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
