//! A copy in a file is whole or refused, and says what is wrong with it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use persys_cluster::record::{Snapshot, Write};
use persys_model::drift::DriftKind;
use persys_model::time::WallMillis;
use persys_model::token::CommitSeq;
use persys_store::archive::{self, Archive, BadArchive, NewFile};
use persys_store::{Embedded, Memory, Pairs, Settings, Store};

use crate::contract::faulty::Chance;
use crate::contract::sample::{
    Pen, assignment, attachment, drift, entries, grave, node, retry, running, volume, workload,
};

async fn sample() -> Archive {
    let store = Memory::new(Settings::default()).unwrap();
    let persys_store::Campaign::Won(term) = store.campaign(&"a#1".into(), 1000).await.unwrap()
    else {
        panic!("not won")
    };
    let mut pen = Pen::new();
    let units = vec![
        pen.unit(vec![
            Write::PutNode(node(1)),
            Write::PutRetry(retry(1)),
            Write::PutGrave(grave(1, 7)),
            Write::PutDrift(drift(1, 8, DriftKind::OrphanOnAgent)),
            Write::PutVolume(volume(1)),
            Write::PutAttachment(attachment(1, 1)),
        ]),
        pen.unit(running(1, 1)),
        pen.unit(running(2, 2)),
        pen.unit(entries(1).into_iter().map(Write::PutEntry).collect()),
    ];
    store.commit(term, CommitSeq(0), units).await.unwrap();
    for (key, bytes) in [
        ("/nodes/bad", &b"\xff\x00"[..]),
        ("/nodes/pretty", b"{\n  \"v\": 1\n}"),
        ("/nodes/null", b"null"),
        ("/events/bad", b"{} "),
        ("/quarantine/nodes/n1@3", b"12"),
        ("/notes", br#""text""#),
    ] {
        store.put_bytes(key, bytes);
    }
    Archive::new(store.dump().await.unwrap(), WallMillis(1_700_000_000_000))
}

fn bytes_of(archive: &Archive) -> Vec<u8> {
    let mut bytes = Vec::new();
    archive::write(archive, &mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<Archive, BadArchive> {
    archive::read(&mut &*bytes)
}

#[tokio::test]
async fn what_was_written_is_read_and_can_be_understood() {
    let archive = sample().await;
    let bytes = bytes_of(&archive);
    assert_eq!(read(&bytes).unwrap(), archive);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("{\"cluster\":\"c1\",\"incarnation\":0,\"persys\":\"snapshot\""));
    assert!(text.contains("\n{\"key\":\"/meta/head\",\"json\":{\"v\":1,\"cluster\":\"c1\""));
    assert!(text.contains("\n{\"key\":\"/nodes/bad\",\"base64\":\"/wA=\"}\n"), "{text}");
    let counted = [
        ("assignments", 2),
        ("attachments", 1),
        ("bindings", 1),
        ("drifts", 1),
        ("events", 3),
        ("foreign", 1),
        ("graves", 1),
        ("head", 1),
        ("join-tokens", 1),
        ("namespaces", 1),
        ("nodes", 4),
        ("quarantine", 1),
        ("retries", 1),
        ("revocations", 1),
        ("user-tokens", 1),
        ("volumes", 1),
        ("workloads", 2),
    ];
    let counted: BTreeMap<_, _> = counted.map(|(kind, count)| (kind.to_owned(), count)).into();
    assert_eq!(archive.header.records, counted);
    assert_eq!(archive.header.seq, CommitSeq(4));

    let contents = archive.contents();
    assert_eq!(contents.events, 2);
    let snapshot = contents.loaded.snapshot;
    let expected = Snapshot {
        head: snapshot.head.clone(),
        nodes: vec![node(1)],
        leases: Vec::new(),
        workloads: vec![workload(1), workload(2)],
        assignments: vec![assignment(1), assignment(2)],
        retries: vec![retry(1)],
        graves: vec![grave(1, 7)],
        drifts: vec![drift(1, 8, DriftKind::OrphanOnAgent)],
        entries: entries(1),
        volumes: vec![volume(1)],
        attachments: vec![attachment(1, 1)],
    };
    let mut snapshot = snapshot;
    snapshot.entries.sort_by_key(|entry| entry.key());
    assert_eq!(snapshot, expected);
    assert_eq!(snapshot.head.unwrap().seq, CommitSeq(4));
    let aside: Vec<_> = contents.loaded.quarantined.iter().map(|found| &*found.key).collect();
    let bad = ["/events/bad", "/nodes/bad", "/nodes/null", "/nodes/pretty", "/notes"];
    assert_eq!(aside, [&bad[..], &["/quarantine/nodes/n1@3"]].concat());
}

#[tokio::test]
async fn what_is_cut_damaged_or_foreign_is_refused() {
    let archive = sample().await;
    let whole = bytes_of(&archive);
    for length in 0..whole.len() {
        let refused = read(&whole[..length]).unwrap_err();
        let expected = matches!(refused, BadArchive::Cut { .. } | BadArchive::Foreign);
        assert!(expected, "cut at {length}: {refused}");
    }
    let mut chance = Chance(0x5eed);
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        let at = usize::try_from(chance.below(bytes.len() as u64)).unwrap();
        bytes[at] ^= 1 << chance.below(8);
        let refused = read(&bytes).map(|_| at).unwrap_err().to_string();
        assert!(!refused.contains("registry.example"), "nothing is quoted: {refused}");
    }
    let rows: [(&[u8], &str); 4] = [
        (b"", "is not a snapshot"),
        (b"hello\n", "is not a snapshot"),
        (b"{\"persys\":\"snapshot\",\"v\":2}\n", "format 2; this release reads format 1"),
        (b"{\"persys\":\"snapshot\",\"v\":1}\n", "line 1 is damaged"),
    ];
    for (bytes, said) in rows {
        let refused = read(bytes).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
    let longer = [&whole[..], b"\n"].concat();
    assert!(matches!(read(&longer), Err(BadArchive::Longer)));
}

#[tokio::test]
async fn a_well_summed_file_that_lies_is_refused() {
    let Archive { header, pairs } = sample().await;
    let lies: [(&str, Pairs); 3] = [
        ("line 1 is damaged: it tells of other", pairs[..3].to_vec()),
        ("its key is not in order", pairs.iter().rev().cloned().collect()),
        ("its key is none", vec![("/meta/leader".to_owned(), b"{}".to_vec())]),
    ];
    for (said, pairs) in lies {
        let refused = read(&bytes_of(&Archive { header: header.clone(), pairs })).unwrap_err();
        assert!(refused.to_string().contains(said), "{refused}");
    }
}

#[tokio::test]
async fn a_file_has_its_name_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.snapshot");
    let archive = sample().await;
    let mut file = NewFile::create(&path).unwrap();
    file.write_all(b"half").unwrap();
    assert!(file.check().is_err());
    drop(file);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");

    let mut file = NewFile::create(&path).unwrap();
    archive::write(&archive, &mut file).unwrap();
    assert!(!path.exists());
    assert_eq!(file.check().unwrap(), archive);
    file.finish().unwrap();
    assert_eq!(archive::open(&path).unwrap(), archive);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let refused = NewFile::create(&path).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn only_the_head_changes_when_a_copy_goes_somewhere_else() {
    let Archive { pairs, .. } = sample().await;
    let restored = archive::for_restoring(pairs.clone()).unwrap();
    let moved = archive::for_moving(pairs.clone()).unwrap();
    for changed in [&restored, &moved] {
        let different: Vec<_> =
            pairs.iter().zip(changed).filter(|(a, b)| a != b).map(|(a, _)| &*a.0).collect();
        assert_eq!(different, ["/meta/head"]);
        assert_eq!(changed.len(), pairs.len());
    }
    let head = |pairs| Archive::new(pairs, WallMillis(0)).contents().loaded.snapshot.head.unwrap();
    let before = head(pairs.clone());
    assert!(head(restored).rebuilding && !before.rebuilding);
    assert_eq!(head(moved).incarnation, before.incarnation + 1);
    let headless: Pairs = pairs.into_iter().filter(|(key, _)| key != "/meta/head").collect();
    assert!(archive::for_restoring(headless).unwrap_err().to_string().contains("is missing"));
}

/// Reading all of a store does not hold up who writes.
#[tokio::test]
async fn a_copy_is_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("store.redb"), Settings::default()).unwrap();
    let persys_store::Campaign::Won(term) = store.campaign(&"a#1".into(), 1000).await.unwrap()
    else {
        panic!("not won")
    };
    let mut pen = Pen::new();
    for round in 0..40 {
        let after = pen.head.seq;
        let units = vec![pen.unit(running(round, round + 1))];
        let (done, copy) = tokio::join!(store.commit(term, after, units), store.dump());
        done.unwrap();
        let snapshot = Archive::new(copy.unwrap(), WallMillis(0)).contents().loaded.snapshot;
        let seq = snapshot.head.map_or(0, |head| head.seq.0);
        assert_eq!(snapshot.workloads.len() as u64, seq, "whole units");
        assert_eq!(snapshot.assignments.len() as u64, seq);
    }
}
