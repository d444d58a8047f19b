//! Reading values: versions 1 and 2, logins, and each fault.

use persys_identity::vault::{Auth, Engine, KvReader, ReadFault, Secret};
use serde_json::{Value, json};

use crate::double::{Double, ROLE_ID, SECRET_ID};

fn application(double: &Double) -> KvReader {
    let (role_id, secret_id) = (ROLE_ID.to_owned(), Secret::new(SECRET_ID));
    KvReader::new(&double.url(), Auth::AppRole { role_id, secret_id }).unwrap()
}

async fn text(reader: &KvReader, path: &str, engine: Engine, field: &str) -> String {
    let value = reader.read(path, engine, field).await.unwrap();
    String::from_utf8(value.to_vec()).unwrap()
}

#[tokio::test]
async fn both_engines_and_both_logins_give_the_field() {
    let double = Double::start().await;
    double.put("kv/team-a/db", json!({"password": "one", "port": 5432, "tls": true}));
    double.put("secret/data/team-a/db", json!({"password": "two"}));
    double.with(|held| held.tokens.insert("given".to_owned()));
    let token = KvReader::new(&double.url(), Auth::Token(Secret::new("given"))).unwrap();
    for reader in [application(&double), token] {
        let one = |field| text(&reader, "kv/team-a/db", Engine::One, field);
        assert_eq!(one("password").await, "one");
        assert_eq!(one("port").await, "5432");
        assert_eq!(one("tls").await, "true");
        let two = text(&reader, "secret/data/team-a/db", Engine::Two, "password").await;
        assert_eq!(two, "two");
    }
    assert_eq!(double.with(|held| held.logins), 1, "one login serves all reads");
}

#[tokio::test]
async fn each_fault_has_its_kind_and_its_words() {
    let double = Double::start().await;
    double.put("secret/data/a", json!({"password": "x", "list": [1]}));
    double.put("secret/data/gone", Value::Null);
    double.put("secret/data/closed", json!({"password": "x"}));
    double.with(|held| held.forbidden.insert("secret/data/closed".to_owned()));
    let reader = application(&double);
    for (path, field, fault, words) in [
        ("secret/data/none", "password", ReadFault::Missing, "nothing at secret/data/none"),
        ("secret/data/gone", "password", ReadFault::Missing, "nothing at secret/data/gone"),
        ("secret/data/closed", "password", ReadFault::Forbidden, "permission denied"),
        ("secret/data/a", "user", ReadFault::Field, "no field user; its fields: list, password"),
        ("secret/data/a", "list", ReadFault::Field, "is not a text"),
    ] {
        let why = reader.read(path, Engine::Two, field).await.unwrap_err();
        assert_eq!(why.fault, fault, "{why}");
        assert!(why.text.contains(words), "{why}");
    }
    // Version 1 was said of an engine of version 2, and the other way round.
    let why = reader.read("secret/data/a", Engine::One, "password").await.unwrap_err();
    assert_eq!(why.fault, ReadFault::Field, "{why}");
    double.with(|held| held.sealed = true);
    let why = reader.read("secret/data/a", Engine::Two, "password").await.unwrap_err();
    assert_eq!(why.fault, ReadFault::Sealed, "{why}");
    let wrong = Auth::AppRole { role_id: "x".to_owned(), secret_id: Secret::new("guessed") };
    double.with(|held| held.sealed = false);
    let wrong = KvReader::new(&double.url(), wrong).unwrap();
    let why = wrong.read("secret/data/a", Engine::Two, "password").await.unwrap_err();
    assert_eq!(why.fault, ReadFault::Forbidden, "{why}");
    assert!(!why.text.contains("guessed"), "{why}");
    let url = double.url();
    drop(double);
    let nobody = KvReader::new(&url, Auth::Token(Secret::new("t"))).unwrap();
    let why = nobody.read("secret/data/a", Engine::Two, "password").await.unwrap_err();
    assert_eq!(why.fault, ReadFault::Away, "{why}");
}

#[tokio::test]
async fn a_login_that_was_revoked_is_made_anew_and_one_that_ends_is_renewed() {
    let double = Double::start().await;
    double.put("kv/a", json!({"f": "v"}));
    let reader = application(&double);
    assert_eq!(text(&reader, "kv/a", Engine::One, "f").await, "v");
    double.with(|held| held.tokens.clear());
    assert_eq!(text(&reader, "kv/a", Engine::One, "f").await, "v");
    assert_eq!(double.with(|held| held.logins), 2);
    // Half of no second is over at once.
    double.with(|held| {
        held.lease = 1;
        held.tokens.clear();
    });
    assert_eq!(text(&reader, "kv/a", Engine::One, "f").await, "v");
    for _ in 0..400 {
        text(&reader, "kv/a", Engine::One, "f").await;
        if double.with(|held| held.renewals) > 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("it was never renewed");
}
