//! Pushes to repositories, from a signed webhook to a stack that runs the new commit; and others who
//! are told of events.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::hmac;
use persys_gateway::app::Config;
use persys_gateway::caller::Secret;
use persys_gateway::webhooks::{Listener, Provider, Settings};
use persys_identity::Name;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{PATIENCE, Site, container, told};

const SECRET: &str = "a secret of the sender";

fn git(folder: &Path, args: &[&str]) {
    let who = ["-c", "user.name=t", "-c", "user.email=t@t"];
    let mut command = Command::new("/usr/bin/git");
    let command = command.args(who).args(args).current_dir(folder).env_clear();
    assert!(command.env("PATH", "/usr/bin:/bin").output().unwrap().status.success(), "{args:?}");
}

fn commit(folder: &Path, image: &str) {
    let text = format!("services:\n  web:\n    image: {image}\n");
    std::fs::write(folder.join("compose.yaml"), text).unwrap();
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--message=x"]);
}

fn settings(folder: &Path, listeners: Vec<Listener>) -> Settings {
    Settings {
        folder: folder.to_owned(),
        secrets: BTreeMap::from([(Provider::Github, vec![Secret::new(SECRET)])]),
        user: Name::new("webhooks").unwrap(),
        window: Duration::from_hours(24),
        listeners,
    }
}

fn payload(nth: u32) -> String {
    json!({
        "ref": "refs/heads/main",
        "after": "0000000000000000000000000000000000000000",
        "nth": nth,
        "repository": {"full_name": "org/shop", "clone_url": "https://evil.test/x.git"},
    })
    .to_string()
}

async fn send(site: &Site, id: &str, body: &str, secret: &str) -> (u16, Value) {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let digits = persys_model::hex::hex(tag.as_ref());
    let request = site
        .http
        .post(site.url("/webhooks/github"))
        .header("content-type", "application/json")
        .header("x-github-event", "push")
        .header("x-github-delivery", id)
        .header("x-hub-signature-256", format!("sha256={digits}"))
        .body(body.to_owned());
    told(request.send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_is_proven_moves_what_follows_its_branch_and_nothing_else_does() {
    let (kept, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository = folder.path().join("org/shop");
    std::fs::create_dir_all(&repository).unwrap();
    git(&repository, &["init", "--quiet", "--initial-branch=main", "."]);
    commit(&repository, "web:1");
    let hooks = settings(kept.path(), Vec::new());
    let site = Site::with(|config: &mut Config| config.webhooks = Some(hooks)).await;
    let compose = json!({"source_type": "git", "git_repo": format!("file://{}", repository.display()), "git_ref": "main"});
    let wanted = json!({"workload_id": "shop", "revision_id": "mine", "spec": {"type": "compose", "compose": compose}});
    let (status, said) = site.post("/v1/workloads", &wanted).await;
    assert_eq!(status, 200, "{said}");
    let (_, before) = site.get("/v1/workloads/shop").await;

    // Nobody who cannot prove it moves anything.
    commit(&repository, "web:2");
    let body = payload(1);
    assert_eq!(send(&site, "d1", &body, "guess").await.0, 401);
    let (status, problem) =
        told(site.http.post(site.url("/webhooks/gitlab")).body("{}").send().await.unwrap()).await;
    assert_eq!((status, &problem["code"]), (403, &json!("no_secret")));
    let (status, _) =
        told(site.http.post(site.url("/webhooks/github")).body(body.clone()).send().await.unwrap())
            .await;
    assert_eq!(status, 400);
    assert_eq!(
        site.get("/v1/workloads/shop").await.1["workload"]["revision_id"],
        before["workload"]["revision_id"]
    );

    let (status, said) = send(&site, "d1", &body, SECRET).await;
    assert_eq!((status, &said["status"]), (202, &json!("accepted")), "{said}");
    let moved = site
        .until("/v1/workloads/shop/describe", |shown| {
            shown["workload"]["revision_id"] != before["workload"]["revision_id"]
        })
        .await;
    assert_eq!(moved["spec"]["compose"]["git_ref"], "main");
    // The same delivery, and the same body under another name.
    for id in ["d1", "d2"] {
        let (status, problem) = send(&site, id, &body, SECRET).await;
        assert_eq!((status, &problem["code"]), (409, &json!("replayed")), "{id}");
    }
    // A push that moved nothing changes nothing.
    assert_eq!(send(&site, "d3", &payload(2), SECRET).await.0, 202);
    site.until("/metrics", |text| {
        text.as_str().is_some_and(|text| text.contains("direction=\"in\",outcome=\"done\"} 2"))
    })
    .await;
    let (_, after) = site.get("/v1/workloads/shop").await;
    assert_eq!(after["workload"]["revision_id"], moved["workload"]["revision_id"]);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_told_of_events_signed_and_until_they_take_them() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut text, mut piece) = (String::new(), vec![0; 65536]);
            while !text.ends_with('}') {
                let size = stream.read(&mut piece).await.unwrap_or(0);
                if size == 0 {
                    break;
                }
                text.push_str(&String::from_utf8_lossy(&piece[..size]));
            }
            let first = hearing.lock().unwrap().is_empty();
            hearing.lock().unwrap().push(text);
            let status = if first { "500 Sorry" } else { "204 Thanks" };
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    let kept = tempfile::tempdir().unwrap();
    let told_of = Listener {
        name: "chat".to_owned(),
        url,
        secret: Secret::new("a secret of the listener"),
        types: Vec::new(),
        cluster: String::new(),
        is_inside: true,
    };
    let hooks = settings(kept.path(), vec![told_of]);
    let site = Site::with(|config: &mut Config| config.webhooks = Some(hooks)).await;
    site.post("/v1/workloads", &container("web")).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    let about_web =
        || heard.lock().unwrap().iter().any(|text| text.contains("\"workload_id\":\"web\""));
    while !about_web() {
        assert!(std::time::Instant::now() < deadline, "{:?}", heard.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let all = heard.lock().unwrap().clone();
    let id = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("webhook-id: "));
        line.unwrap_or_default().to_owned()
    };
    assert_eq!(id(&all[0]), id(&all[1]), "what was not taken is sent again");
    assert!(all.iter().all(
        |text| text.contains("webhook-signature: v1,") && text.contains("webhook-timestamp: ")
    ));
    site.stop().await;
}
