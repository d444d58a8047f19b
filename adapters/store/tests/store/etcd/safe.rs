//! Certificates and passwords, against an etcd that asks for them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use persys_etcd::{Kind, Login, Tls};
use persys_etcd_host::{Host, Options};
use persys_model::token::CommitSeq;
use persys_store::{Campaign, Error, Settings, Store};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::open;
use crate::contract::TTL_MS;
use crate::contract::sample::{Pen, running, workload};

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    /// An authority, a server of its at 127.0.0.1, a client of its, and a stranger.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (authority, names) in [("ca", &["server", "client"][..]), ("other", &["stranger"])] {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            let key = KeyPair::generate().unwrap();
            let root = params.self_signed(&key).unwrap();
            let write = |name: &str, text: String| {
                std::fs::write(folder.path().join(name), text).unwrap();
            };
            write(&format!("{authority}.pem"), root.pem());
            let issuer = Issuer::new(params, key);
            for name in names {
                let hosts = vec!["127.0.0.1".to_owned(), "etcd.example".to_owned()];
                let mut params = CertificateParams::new(hosts).unwrap();
                params.extended_key_usages =
                    vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
                let key = KeyPair::generate().unwrap();
                let certificate = params.signed_by(&key, &issuer).unwrap();
                write(&format!("{name}.pem"), certificate.pem());
                write(&format!("{name}.key"), key.serialize_pem());
            }
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn tls(&self, own: Option<&str>) -> Tls {
        let own =
            own.map(|name| (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key"))));
        Tls { roots: self.path("ca.pem"), own, server_name: None }
    }
}

#[tokio::test]
async fn certificates_are_shown_both_ways() {
    let files = Files::new();
    let mut options = Options::new(1).with(&[
        &format!("--cert-file={}", files.text("server.pem")),
        &format!("--key-file={}", files.text("server.key")),
        &format!("--trusted-ca-file={}", files.text("ca.pem")),
        "--client-cert-auth",
    ]);
    options.way.tls = Some(files.tls(Some("client")));
    let host = Host::start(options).await;
    let store = open(&host, &Settings::default());
    let Campaign::Won(term) = store.campaign(&Arc::from("a#1"), TTL_MS).await.unwrap() else {
        panic!("somebody leads")
    };
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    assert_eq!(store.load(term, None).await.unwrap().snapshot.workloads, [workload(1)]);

    let named = Tls { server_name: Some("etcd.example".to_owned()), ..files.tls(Some("client")) };
    let misnamed = Tls { server_name: Some("other.example".to_owned()), ..named.clone() };
    let distrusting = Tls { roots: files.path("other.pem"), ..files.tls(Some("client")) };
    let missing = Tls { roots: files.path("none.pem"), ..files.tls(None) };
    for (tls, well) in [
        (Some(named), true),
        (Some(misnamed), false),
        (Some(distrusting), false),
        (Some(missing), false),
        (Some(files.tls(None)), false),
        (Some(files.tls(Some("stranger"))), false),
        (None, false),
    ] {
        let way = persys_etcd::Settings { tls: tls.clone(), ..host.way() };
        let got = persys_etcd::Client::new(way).get("/meta/head").await;
        assert_eq!(got.is_ok(), well, "{tls:?}: {got:?}");
    }
}

fn etcdctl(host: &Host, login: &[&str], words: &[&str]) {
    let endpoint = host.endpoints().remove(0);
    let done = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &endpoint])
        .args(login)
        .args(words)
        .output()
        .expect("etcdctl; hack/etcd-install installs it");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{words:?}: {said}");
}

#[tokio::test]
async fn a_name_and_a_password_let_us_in_where_we_may_be() {
    let mut host = Host::one().await;
    for words in [
        &["user", "add", "root:geheim"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "persys:passwort"],
        &["role", "add", "persys"],
        &["role", "grant-permission", "persys", "--prefix=true", "readwrite", "/persys/"],
        &["user", "grant-role", "persys", "persys"],
        &["auth", "enable"],
    ] {
        etcdctl(&host, &[], words);
    }
    let with = |host: &Host, password: &str, root: &str| {
        let login = Some(Login::new("persys".to_owned(), password.to_owned()));
        let way = persys_etcd::Settings { login, ..host.way() };
        let store = Settings { root: root.to_owned(), ..Settings::default() };
        let settings = persys_store::EtcdSettings { way, store, quota_bytes: None };
        persys_store::Etcd::open(settings).unwrap()
    };
    let store = with(&host, "passwort", "/persys");
    let Campaign::Won(term) = store.campaign(&Arc::from("a#1"), TTL_MS).await.unwrap() else {
        panic!("somebody leads")
    };
    let mut pen = Pen::new();
    store.commit(term, CommitSeq(0), vec![pen.unit(running(1, 1))]).await.unwrap();
    assert_eq!(store.load(term, None).await.unwrap().snapshot.workloads, [workload(1)]);

    for (password, root) in [("falsch", "/persys"), ("passwort", "/elsewhere")] {
        let refused = with(&host, password, root).campaign(&Arc::from("b#1"), TTL_MS).await;
        let Err(Error::Unavailable { why }) = refused else { panic!("{refused:?}") };
        assert!(!why.contains(password) && !why.contains("geheim"), "{why}");
    }
    let anonymous = host.client().get("/persys/meta/head").await.unwrap_err();
    assert_eq!(anonymous.kind(), Kind::StaleToken, "{anonymous}");
    let stranger = Login::new("persys".to_owned(), "falsch".to_owned());
    let way = persys_etcd::Settings { login: Some(stranger), ..host.way() };
    let refused = persys_etcd::Client::new(way).get("/persys/meta/head").await.unwrap_err();
    assert!(!refused.is_unknown() && refused.kind() == Kind::Denied, "{refused}");

    // An etcd that was started again knows no tokens: a new one is fetched without a word.
    host.kill_all();
    host.spawn(0);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while let Err(error) = store.renew(term).await {
        assert!(std::time::Instant::now() < end, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
