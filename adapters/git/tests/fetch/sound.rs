//! What somebody asks for and gets.

use base64::Engine as _;
use persys_git::{Error, Fetcher, USUAL_NAMES};

use crate::repository::{Bench, Repo, source};
use crate::server::{Manner, Server};

const FILE: &str = "services:\n  web:\n    image: web:1\n";

#[tokio::test]
async fn a_file_comes_with_the_commit_it_is_from() {
    let repo = Repo::new();
    let first = repo.commit("compose.yaml", FILE);
    repo.git(&["tag", "v1"]);
    repo.git(&["tag", "--annotate", "--message=x", "v1-told"]);
    let second = repo.commit("deploy/stack.yml", "services: {}\n");
    repo.git(&["branch", "feature/x", &first]);
    let bench = Bench::new();
    let fetcher = bench.fetcher();
    for (reference, path, commit, file) in [
        ("", "", &second, FILE),
        ("main", "compose.yaml", &second, FILE),
        ("main", "deploy/stack.yml", &second, "services: {}\n"),
        ("v1", "", &first, FILE),
        ("v1-told", "", &first, FILE),
        ("feature/x", "", &first, FILE),
        (first.as_str(), "", &first, FILE),
    ] {
        let found = fetcher.fetch(&repo.source(reference, path)).await.unwrap();
        assert_eq!((&found.commit, found.file.as_str()), (commit, file), "{reference} {path}");
    }
    assert!(bench.left().is_empty(), "{:?}", bench.left());
}

#[tokio::test]
async fn the_usual_names_are_looked_for_in_order() {
    let repo = Repo::with("README", "x");
    let bench = Bench::new();
    let fetcher = bench.fetcher();
    let error = fetcher.fetch(&repo.source("", "")).await.unwrap_err().to_string();
    assert!(error.contains("compose.yaml or compose.yml or docker-compose.yaml"), "{error}");
    for name in USUAL_NAMES.iter().rev() {
        repo.commit(name, &format!("# {name}\n"));
        let found = fetcher.fetch(&repo.source("", "")).await.unwrap();
        assert_eq!((found.path.as_str(), found.file), (*name, format!("# {name}\n")));
    }
}

#[tokio::test]
async fn over_http_a_new_commit_is_seen_and_an_old_one_stays_what_it_was() {
    let repo = Repo::new();
    let first = repo.commit("compose.yaml", FILE);
    let root = repo.path().parent().unwrap();
    let server = Server::start(root, Manner::default()).await;
    let name = repo.path().file_name().unwrap().to_str().unwrap();
    let address = format!("{}/{name}/.git", server.origin);
    let bench = Bench::new();
    let fetcher = bench.fetcher();
    let found = fetcher.fetch(&source(&address, "main", "")).await.unwrap();
    assert_eq!((found.commit.as_str(), found.file.as_str()), (first.as_str(), FILE));
    let second = repo.commit("compose.yaml", "services: {}\n");
    let found = fetcher.fetch(&source(&address, "main", "")).await.unwrap();
    assert_eq!((found.commit, found.file.as_str()), (second, "services: {}\n"));
    let found = fetcher.fetch(&source(&address, &first, "")).await.unwrap();
    assert_eq!((found.commit, found.file.as_str()), (first, FILE));
}

#[tokio::test]
async fn a_private_repository_opens_to_the_token_of_its_host() {
    let repo = Repo::with("compose.yaml", FILE);
    let pair = base64::engine::general_purpose::STANDARD.encode("robot:s3cret-token");
    let manner = Manner { authorization: Some(format!("Basic {pair}")), ..Manner::default() };
    let server = Server::start(repo.path(), manner).await;
    let wanted = source(&format!("{}/.git", server.origin), "", "");

    let error = Bench::new().fetcher().fetch(&wanted).await.unwrap_err().to_string();
    assert!(error.contains("give its host a token"), "{error}");

    let bench = Bench::new().with_token(&server.origin, "robot", "wrong-token");
    let error = bench.fetcher().fetch(&wanted).await.unwrap_err().to_string();
    assert!(error.contains("fetching the commit failed"), "{error}");
    assert!(!error.contains("wrong-token"), "{error}");

    let bench = Bench::new().with_token(&server.origin, "robot", "s3cret-token");
    assert_eq!(bench.fetcher().fetch(&wanted).await.unwrap().file, FILE);

    // Another host is not shown it.
    server.heard.lock().unwrap().clear();
    let bench = Bench::new().with_token("http://other.test", "robot", "s3cret-token");
    bench.fetcher().fetch(&wanted).await.unwrap_err();
    assert!(server.heard.lock().unwrap().iter().all(|one| !one.contains(&pair)));
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_with_all_reasons_at_once() {
    let bench = Bench::new();
    let mut settings = persys_git::Settings::default().within(bench.settings.scratch.clone());
    settings.hosts.insert("git.test".to_owned());
    let fetcher = Fetcher::new(settings).unwrap();
    for (address, words) in [
        ("http://git.test/a", "http is not allowed here, only https, ssh"),
        ("file:///srv/a", "file is not allowed here"),
        ("https://evil.test/a", "the host evil.test is not allowed"),
        ("ssh://git@git.test/a", "no key is set up for ssh"),
    ] {
        let error = fetcher.fetch(&source(address, "--exec", "../x")).await.unwrap_err();
        let Error::Refused(faults) = &error else { panic!("{error}") };
        let paths: Vec<_> = faults.listed().iter().map(|fault| fault.path.as_str()).collect();
        let wanted = ["spec.compose.git_repo", "spec.compose.git_ref", "spec.compose.git_path"];
        assert_eq!(paths, wanted, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_host_without_git_says_so() {
    let repo = Repo::with("compose.yaml", FILE);
    for (git, limiter) in [("/no/git", "/usr/bin/prlimit"), ("/usr/bin/git", "/no/prlimit")] {
        let mut bench = Bench::new();
        bench.settings.git = git.into();
        bench.settings.limiter = limiter.into();
        let error = bench.fetcher().fetch(&repo.source("", "")).await.unwrap_err();
        assert!(matches!(error, Error::Setup { .. }), "{error}");
        assert!(error.to_string().contains("apt-get install"), "{error}");
    }
}
