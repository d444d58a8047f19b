//! The name of a spec's content.

use super::*;
use crate::spec::canonical::content_revision;

/// Changing this value renames every unnamed version in every cluster. If this test fails, mend
/// the encoding, not the value.
#[test]
fn names_are_the_same_in_every_release() {
    let mut container = container_draft();
    container.resources.cpu_millicores = 100;
    container.resources.memory_mb = 128;
    let rows = [
        (container, "content-63ef0ce637806ce6bc94578d1d4a3251"),
        (compose_draft(), "content-bf17b6626c34db7ad19a3667df65fc80"),
        (vm_draft(), "content-b92dbea765346d5fa88a88d96b8b8327"),
    ];
    for (draft, name) in rows {
        assert_eq!(content_revision(&accepted(&draft)).as_str(), name);
    }
}

/// What nobody asked to reserve was once a limit, and is none any more: that is another content, so
/// that applying it again takes the limit away.
#[test]
fn to_ask_for_what_is_reserved_anyway_is_another_content() {
    let mut asked = container_draft();
    asked.resources.cpu_millicores = 100;
    asked.resources.memory_mb = 128;
    let (asked, plain) = (accepted(&asked), accepted(&container_draft()));
    assert_eq!(asked.resources, plain.resources);
    assert_ne!(content_revision(&asked), content_revision(&plain));
}

#[test]
fn an_address_is_another_content() {
    let named = |ips: &[&str]| {
        let mut draft = container_draft();
        let port = |ip: &&str| crate::spec::draft::PortDraft {
            container_port: 80,
            host_ip: (*ip).into(),
            ..Default::default()
        };
        container(&mut draft).ports = ips.iter().map(port).collect();
        content_revision(&accepted(&draft))
    };
    assert_eq!(named(&["::1"]), named(&["0:0::1"]), "one address, written in two ways");
    let all = [
        named(&[""]),
        named(&["::1"]),
        named(&["127.0.0.1"]),
        named(&["", "127.0.0.1"]),
        named(&["127.0.0.1", ""]),
        named(&["", ""]),
    ];
    for (nth, one) in all.iter().enumerate() {
        assert!(!all[nth + 1..].contains(one), "{nth}");
    }
}

#[test]
fn a_name_follows_the_meaning_not_the_words() {
    let plain = accepted(&compose_draft());
    let mut wordy = compose_draft();
    wordy.workload_type = "COMPOSE".into();
    compose(&mut wordy).source_type = "inline".into();
    wordy.placement.strategy = "spread".into();
    assert_eq!(content_revision(&plain), content_revision(&accepted(&wordy)));

    let mut parsed = plain.clone();
    if let Kind::Compose(compose) = &mut parsed.kind {
        compose.has_named_volumes = true;
    }
    assert_eq!(content_revision(&plain), content_revision(&parsed), "follows from the file");
}

#[test]
fn neighbouring_texts_do_not_run_together() {
    let revision = |command: &[&str], args: &[&str]| {
        let mut draft = container_draft();
        container(&mut draft).command = command.iter().map(|word| (*word).into()).collect();
        container(&mut draft).args = args.iter().map(|word| (*word).into()).collect();
        content_revision(&accepted(&draft))
    };
    let names = [
        revision(&["ab", "c"], &[]),
        revision(&["a", "bc"], &[]),
        revision(&["ab"], &["c"]),
        revision(&["abc"], &[]),
        revision(&[], &["ab", "c"]),
    ];
    for (at, one) in names.iter().enumerate() {
        assert!(!names.iter().skip(at + 1).any(|other| other == one), "{one} twice");
    }
}
