//! Stores in a real etcd: moved there and back, saved, restored, reached with certificates and a name.

use std::path::{Path, PathBuf};
use std::process::Command;

use persys_etcd::Tls;
use persys_etcd_host::{Host, Options};
use persys_scheduler::place::Place;
use persys_store::archive;
use persys_store::{EtcdSettings, Pairs, Settings};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::Value;

use crate::rig::{Rig, Told, tell, world};

const HEAD: &str = "/meta/head";

fn place(host: &Host, root: &str) -> Place {
    let store = Settings { root: root.to_owned(), ..Settings::default() };
    Place::Etcd(Box::new(EtcdSettings { way: host.patient_way(), store, quota_bytes: None }))
}

fn records(file: &str) -> Pairs {
    archive::open(Path::new(file)).unwrap().pairs
}

/// The same records byte for byte, but for what the head says it may.
fn assert_same(before: &str, after: &str, change: impl FnOnce(&mut Value)) {
    let (mut before, mut after) = (records(before), records(after));
    let head = |pairs: &mut Pairs| {
        let place = pairs.iter().position(|(key, _)| key == HEAD).unwrap();
        serde_json::from_slice::<Value>(&pairs.remove(place).1).unwrap()
    };
    let (mut expected, found) = (head(&mut before), head(&mut after));
    change(&mut expected);
    assert_eq!(found, expected);
    assert!(before.len() > 3, "{before:?}");
    assert_eq!(before, after);
}

fn moved_once(head: &mut Value) {
    head["incarnation"] = (head["incarnation"].as_u64().unwrap_or(0) + 1).into();
}

async fn runs_as_before(rig: &Rig, inside: &Value) {
    // Before it leads it answers from a copy.
    rig.until("status -o json", |told| told.code == 0 && told.json()["mode"] == "normal").await;
    rig.until("nodes -o json", |told| told.code == 0 && told.json()[0]["status"] == "Ready").await;
    let after = rig.types("get one -o json").await.ended(0).json();
    assert_eq!(after["workload"]["status"], "Running");
    assert_eq!(&after["inside"]["runtime_id"], inside, "it was not started again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_to_etcd_and_back_and_loses_nothing() {
    let host = Host::one().await;
    let etcd = host.endpoints().join(",");
    let mut rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    rig.types("run web --name two").await.ended(0);
    rig.types("stop two").await.ended(0);
    let inside = rig.types("get one -o json").await.ended(0).json()["inside"]["runtime_id"].clone();
    assert!(inside.is_string(), "{inside}");
    rig.stop_scheduler().await;

    // There.
    let (old, back) = (rig.path("scheduler"), rig.path("back"));
    let (first, second, third, fourth) =
        (rig.path("1"), rig.path("2"), rig.path("3"), rig.path("4"));
    rig.types(&format!("snapshot save {first} --state-dir {old}")).await.ended(0);
    let told = rig.types(&format!("store migrate --from {old} --to etcd:{etcd}")).await.ended(0);
    let next = format!("next:\n  persys scheduler --etcd-endpoints {etcd}\n");
    assert!(told.out.ends_with(&next), "{told:?}");
    rig.types(&format!("snapshot save {second} --etcd {etcd}")).await.ended(0);
    assert_same(&first, &second, moved_once);
    let again = rig.types(&format!("store migrate --from {old} --to etcd:{etcd}")).await.ended(1);
    assert!(again.err.contains("the store is not empty: it holds /"), "{again:?}");
    assert!(again.err.contains("name an etcd that holds nothing of this system"), "{again:?}");

    // A scheduler goes on there; while it leads nothing is moved or restored, but copied.
    std::fs::create_dir_all(rig.path("host")).unwrap();
    std::fs::copy(format!("{old}/known.json"), rig.path("host/known.json")).unwrap();
    rig.start_scheduler_at("host", place(&host, "")).await;
    runs_as_before(&rig, &inside).await;
    rig.types("run web --name three").await.ended(0);
    for line in [
        format!("store migrate --from etcd:{etcd} --to {back}"),
        format!("snapshot restore {first} --etcd {etcd}"),
        format!("store migrate --from {old} --to etcd:{etcd}"),
    ] {
        let told = rig.types(&line).await.ended(1);
        assert!(
            told.err.contains("the scheduler ") && told.err.contains(" runs with it"),
            "{told:?}"
        );
        assert!(told.err.contains("stop that scheduler first"), "{told:?}");
    }
    assert!(!Path::new(&back).exists(), "nothing was begun");
    rig.types(&format!("snapshot save {} --etcd {etcd}", rig.path("live"))).await.ended(0);
    rig.stop_scheduler().await;

    // And back.
    rig.types(&format!("snapshot save {third} --etcd {etcd}")).await.ended(0);
    assert!(records(&third).len() > records(&second).len());
    rig.types(&format!("store migrate --from etcd:{etcd} --to {back}")).await.ended(0);
    rig.types(&format!("snapshot save {fourth} --state-dir {back}")).await.ended(0);
    assert_same(&third, &fourth, moved_once);
    std::fs::copy(rig.path("host/known.json"), format!("{back}/known.json")).unwrap();
    rig.start_scheduler("back").await;
    runs_as_before(&rig, &inside).await;
    rig.types("get three").await.ended(0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_either_store_is_restored_into_either() {
    let host = Host::one().await;
    let etcd = host.endpoints().join(",");
    let mut rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    let file = rig.path("from-scheduler");
    rig.types(&format!("snapshot save {file}")).await.ended(0);
    rig.stop_scheduler().await;
    let rebuilding = |head: &mut Value| head["rebuilding"] = true.into();
    let unchanged = |_: &mut Value| {};

    let told = rig
        .types(&format!("snapshot restore {file} --etcd {etcd} --etcd-root /blue"))
        .await
        .ended(0);
    let next = format!(
        "next:\n  persys scheduler --etcd-endpoints {etcd} --etcd-root /blue\n  persys status"
    );
    assert!(told.out.contains(&next), "{told:?}");
    let from_etcd = rig.path("from-etcd");
    rig.types(&format!("snapshot save {from_etcd} --etcd {etcd} --etcd-root /blue")).await.ended(0);
    assert_same(&file, &from_etcd, rebuilding);
    // Another root is another store; the same is not filled twice.
    let empty = rig
        .types(&format!("snapshot save {file}0 --etcd {etcd} --etcd-root /green"))
        .await
        .ended(1);
    assert!(empty.err.contains("is empty"), "{empty:?}");
    let again = rig
        .types(&format!("snapshot restore {file} --etcd {etcd} --etcd-root /blue"))
        .await
        .ended(1);
    assert!(again.err.contains("the store is not empty"), "{again:?}");

    // From etcd into a folder, and from there into etcd.
    let folder = rig.path("restored");
    rig.types(&format!("snapshot restore {from_etcd} --state-dir {folder}")).await.ended(0);
    let from_folder = rig.path("from-folder");
    rig.types(&format!("snapshot save {from_folder} --state-dir {folder}")).await.ended(0);
    assert_same(&from_etcd, &from_folder, unchanged);
    rig.types(&format!("snapshot restore {from_folder} --etcd {etcd} --etcd-root /green"))
        .await
        .ended(0);

    // A scheduler begins in recovery there, and the agents bring it up to date.
    rig.start_scheduler_at("host", place(&host, "/green")).await;
    rig.until("status -o json", |told| {
        let heard = |told: &Told| told.json()["heard"].as_array().map(Vec::len);
        told.code == 0 && told.json()["mode"] == "recovery" && heard(told) == Some(1)
    })
    .await;
    rig.types("recover --from-agents --yes").await.ended(0);
    rig.until("get one -o json", |told| {
        told.code == 0 && told.json()["workload"]["status"] == "Running"
    })
    .await;
    rig.stop().await;
}

/// An authority, a server of its at 127.0.0.1 and a client of its.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for name in ["server", "client"] {
        let hosts = vec!["etcd.example".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(hosts).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        std::fs::write(folder.join(format!("{name}.pem")), certificate).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

/// A copy with nothing but a head.
fn small_copy(folder: &Path) -> PathBuf {
    let head = r#"{"v":1,"cluster":"c1","incarnation":0,"seq":1,"epoch":0,"event":0}"#;
    let pairs = vec![(HEAD.to_owned(), head.as_bytes().to_vec())];
    let copy = archive::Archive::new(pairs, persys_model::time::WallMillis(0));
    let file = folder.join("small");
    let mut new = archive::NewFile::create(&file).unwrap();
    archive::write(&copy, &mut new).unwrap();
    new.check().unwrap();
    new.finish().unwrap();
    file
}

/// An etcd that asks for a certificate, and lets `persys` with the password `passwort` below
/// `/persys/`.
async fn guarded(folder: &Path) -> Host {
    let path = |name: &str| folder.join(name).display().to_string();
    certificates(folder);
    let mut options = Options::new(1).with(&[
        &format!("--cert-file={}", path("server.pem")),
        &format!("--key-file={}", path("server.key")),
        &format!("--trusted-ca-file={}", path("ca.pem")),
        "--client-cert-auth",
    ]);
    options.way.tls = Some(Tls {
        roots: path("ca.pem").into(),
        own: Some((path("client.pem").into(), path("client.key").into())),
        server_name: None,
    });
    let host = Host::start(options).await;
    let endpoint = format!("https://{}", host.endpoints().remove(0));
    for words in [
        &["user", "add", "root:geheim"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "persys:passwort"],
        &["role", "add", "persys"],
        &["role", "grant-permission", "persys", "--prefix=true", "readwrite", "/persys/"],
        &["user", "grant-role", "persys", "persys"],
        &["auth", "enable"],
    ] {
        let done = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &endpoint, "--cacert", &path("ca.pem")])
            .args(["--cert", &path("client.pem"), "--key", &path("client.key")])
            .args(words)
            .output()
            .expect("etcdctl; hack/etcd-install installs it");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    host
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_shown_a_certificate_and_a_name() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).display().to_string();
    let host = guarded(home.path()).await;
    let endpoint = host.endpoints().remove(0);
    let file = small_copy(home.path()).display().to_string();
    std::fs::write(path("password"), "passwort\n").unwrap();
    std::fs::write(path("wrong"), "falsch\n").unwrap();
    let types = async |line: &str, password: Option<&str>| {
        let mut world = world(home.path(), "");
        world.env.extend(password.map(|text| ("ETCD_PASSWORD".to_owned(), text.to_owned())));
        tell(&world, &format!("{line} --insecure")).await
    };
    let certificates = format!(
        "--etcd-ca {} --etcd-cert {} --etcd-key {} --etcd-server-name etcd.example",
        path("ca.pem"),
        path("client.pem"),
        path("client.key")
    );
    let restore = format!(
        "snapshot restore {file} --etcd https://{endpoint} --etcd-root /persys {certificates}"
    );
    let named = format!("{restore} --etcd-user persys");
    let told = types(&named, Some("passwort")).await.ended(0);
    assert!(told.out.contains("takes the password from ETCD_PASSWORD too"), "{told:?}");
    assert!(!told.out.contains("passwort"), "{told:?}");
    let words = format!("--etcd-root /persys {certificates} --etcd-user persys\n");
    let next = format!("persys scheduler --etcd-endpoints https://{endpoint} {words}");
    assert!(told.out.contains(&next), "{told:?}");
    let save = named.replace(&format!("restore {file}"), &format!("save {file}2"));
    types(&format!("{save} --etcd-password-file {}", path("password")), None).await.ended(0);
    assert_eq!(records(&format!("{file}2")).len(), 1);

    // Without one of them, or with the wrong one, nothing is done and no password is told.
    let stranger = named.replace(&path("client.pem"), &path("server.pem"));
    for (line, password) in [
        (restore.as_str(), None),
        (named.as_str(), Some("falsch")),
        (&format!("{named} --etcd-password-file {}", path("wrong")), None),
        (&named.replace("etcd.example", "other.example"), Some("passwort")),
        (&named.replace("/persys ", "/elsewhere "), Some("passwort")),
        (&stranger, Some("passwort")),
    ] {
        let told = types(line, password).await.ended(1);
        assert!(!told.err.contains("falsch") && !told.err.contains("passwort"), "{told:?}");
    }
}
