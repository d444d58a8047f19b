//! Who asked for a change, and why.

use crate::rig::{Rig, tell_words};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_kept_with_who_asked_for_it_and_why() {
    let rig = Rig::start().await;
    rig.types("run web --name one").await.ended(0);
    let words = ["run", "web", "--name", "two", "--because", "new disk, 100 % \u{fc}ber Nacht"];
    tell_words(&rig.world(""), &words).await.ended(0);
    let line = |out: &str, id: &str| {
        let found = out.lines().find(|line| line.contains("Submitted") && line.contains(id));
        found.unwrap_or_else(|| panic!("{id} is not in {out}")).to_owned()
    };
    let told = rig.types("audit").await.ended(0);
    let plain = line(&told.out, "one");
    assert!(plain.ends_with("(by operator admin)"), "{plain}");
    let reasoned = line(&told.out, "two");
    assert!(
        reasoned.ends_with("(by operator admin: new disk, 100 % \u{fc}ber Nacht)"),
        "{reasoned}"
    );

    // What happened by itself is no part of it.
    let all = rig.types("events -o json").await.ended(0).json();
    let asked = rig.types("events --asked -o json").await.ended(0).json();
    let (all, asked) = (all.as_array().unwrap(), asked.as_array().unwrap());
    assert!(asked.len() < all.len() && !asked.is_empty(), "{} of {}", asked.len(), all.len());
    let has_author = |event: &serde_json::Value| event["details"]["by"].is_string();
    assert!(asked.iter().all(has_author), "{asked:#?}");
    assert!(all.iter().any(|event| event["type"] == "WorkloadRunning" && !has_author(event)));
    assert_eq!(rig.types("audit -o json").await.ended(0).json().as_array(), Some(asked));

    // And after one of them come the others.
    let (first, rest) = asked.split_first().unwrap();
    let id = first["id"].as_str().unwrap();
    let after = rig.types(&format!("events --asked --after {id} -o json")).await.ended(0).json();
    assert_eq!(after.as_array().map(Vec::as_slice), Some(rest));
    let last = asked.last().unwrap()["id"].as_str().unwrap();
    let none = rig.types(&format!("audit --after {last}")).await.ended(0);
    assert_eq!(none.out, "nothing happened\n");

    // Every kind of change takes it, also where an operator speaks.
    let words = ["node", "drain", "n1", "--because", "moves to another rack"];
    tell_words(&rig.world(""), &words).await.ended(0);
    let told = rig.types("audit").await.ended(0);
    assert!(
        told.out.contains("node/n1: ") && told.out.contains("moves to another rack"),
        "{told:?}"
    );
    tell_words(&rig.world(""), &["summary", "--because", "two\nlines"]).await.ended(64);
    rig.stop().await;
}
