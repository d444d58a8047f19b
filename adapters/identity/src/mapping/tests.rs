use std::path::Path;

use super::*;

const FILE: &str = "/etc/persys/names";

fn parsed(text: &str) -> Result<Mapping, String> {
    Mapping::parse(Path::new(FILE), text.as_bytes()).map_err(|why| why.to_string())
}

fn dns(names: &[&str]) -> CertificateNames {
    let dns = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateNames { dns, ..CertificateNames::default() }
}

const GOOD: &str = r#"
# who is who
cluster east
trust-domain example.org
dns:persys-scheduler.persys.local scheduler s1   # the earlier system's name
ip:10.0.0.1          scheduler s1
dns:*.nodes.example.org  agent  *
ip:10.0.0.5          agent     node1
cn:"Ann Smith"       operator  ann
email:bob@example.org user     bob
uri:https://corp.example/gw#1 gateway gw
dns:prom.example.org metrics   prometheus
"#;

#[test]
fn each_kind_of_name_leads_to_its_identity() {
    let mapping = parsed(GOOD).unwrap();
    assert_eq!(mapping.len(), 8);
    let is = |names: CertificateNames, wanted: &str| {
        let found = mapping.identity(&names).unwrap().to_string();
        assert_eq!(found, format!("spiffe://example.org/east/{wanted}"));
    };
    is(dns(&["persys-scheduler.persys.local"]), "scheduler/s1");
    is(dns(&["node7.nodes.example.org"]), "agent/node7");
    is(dns(&["prom.example.org"]), "metrics/prometheus");
    let address = |text: &str| CertificateNames {
        addresses: vec![text.parse().unwrap()],
        ..CertificateNames::default()
    };
    is(address("10.0.0.5"), "agent/node1");
    let named = |text: &str| CertificateNames {
        common_names: vec![text.to_owned()],
        ..CertificateNames::default()
    };
    is(named("Ann Smith"), "operator/ann");
    let mail = CertificateNames { emails: vec!["bob@example.org".into()], ..dns(&[]) };
    is(mail, "user/bob");
    let uri = CertificateNames { uris: vec!["https://corp.example/gw#1".into()], ..dns(&[]) };
    is(uri, "gateway/gw");
    // Names that agree, and further names that no row has.
    let both = CertificateNames {
        addresses: vec!["10.0.0.1".parse().unwrap()],
        ..dns(&["persys-scheduler.persys.local", "localhost"])
    };
    is(both, "scheduler/s1");
}

#[test]
fn a_near_miss_is_nobody_and_the_refusal_names_the_names_and_the_setting() {
    let mapping = parsed(GOOD).unwrap();
    for near in [
        "persys-scheduler.persys.local.evil.org",
        "xpersys-scheduler.persys.local",
        "nodes.example.org",
        "a.b.nodes.example.org",
        "*.nodes.example.org",
        "node7.nodes.example.org.",
        "-x.nodes.example.org",
        ".nodes.example.org",
        "node_7.nodes.example.org",
    ] {
        let why = mapping.identity(&dns(&[near])).unwrap_err().to_string();
        assert!(why.contains(&format!("dns:{near}")) && why.contains("tls-names"), "{why}");
    }
    for near in ["ann smith", "Ann Smith ", "Ann", "persys-scheduler.persys.local", "10.0.0.5"] {
        let names = CertificateNames { common_names: vec![near.to_owned()], ..dns(&[]) };
        mapping.identity(&names).unwrap_err();
    }
    let why = mapping.identity(&CertificateNames::default()).unwrap_err().to_string();
    assert!(why.contains("its names: none") && why.contains(FILE), "{why}");
}

/// An agent that got itself an operator's common name is neither.
#[test]
fn names_of_two_are_refused_with_both_lines() {
    let mapping = parsed(GOOD).unwrap();
    let sly = CertificateNames {
        common_names: vec!["Ann Smith".to_owned()],
        ..dns(&["node7.nodes.example.org"])
    };
    let why = mapping.identity(&sly).unwrap_err().to_string();
    for part in ["operator/ann by line 9", "agent/node7 by line 7", "tls-names", "cn:Ann Smith"] {
        assert!(why.contains(part), "{why}");
    }
    let two = dns(&["node7.nodes.example.org", "node8.nodes.example.org"]);
    assert!(matches!(mapping.identity(&two), Err(Unmapped::Ambiguous { .. })));
    // An exception to a wildcard is no exception: both rows match.
    let text = "cluster c\ndns:*.n.example.org agent *\ndns:gw.n.example.org gateway gw\n";
    let both = parsed(text).unwrap().identity(&dns(&["gw.n.example.org"]));
    assert!(matches!(both, Err(Unmapped::Ambiguous { .. })));
}

#[test]
fn every_fault_is_named_with_its_line() {
    let text = "cluster East\nfoo\ndns:Node.example agent n1\ndns:*.com agent *\n\
        dns:*.n.example.org operator *\ndns:*.n.example.org agent n1\ndns:a.*.org agent x\n\
        cn:* operator x\nip:10.0.0 agent x\nemail:bob user bob\nuri:x user x\n\
        uri:spiffe://d/c/agent/n agent n\nhost:x agent x\ndns:a.b boss x\ndns:a.b agent X!\n\
        dns:a.b agent *\ndns:c.d agent x\ndns:c.d agent y\ncn:\"open agent x\ndns: agent x\n";
    let why = parsed(text).unwrap_err();
    for (line, part) in [
        (1, "cluster: cluster \"East\""),
        (2, "a row is `<kind>:<value> <role> <name>`"),
        (3, "not a DNS name in lower case"),
        (4, "too wide"),
        (5, "a wildcard cannot give the role operator"),
        (6, "the name is `*`"),
        (7, "the whole first label"),
        (8, "a wildcard counts in dns: alone"),
        (9, "is not an address"),
        (10, "not a mail address"),
        (11, "is not a URI"),
        (12, "needs no row"),
        (13, "none of cn:, dns:, ip:, email:, uri:"),
        (14, "role \"boss\""),
        (15, "name \"X!\""),
        (16, "goes with a dns: wildcard"),
        (18, "stands in line 17 already"),
        (19, "a quote is not closed"),
        (20, "follows the colon"),
    ] {
        let faults: Vec<_> = why.split("; ").collect();
        let start = format!("line {line}: ");
        let found = why.find(&start).map(|at| &why[at..]);
        assert!(found.is_some_and(|rest| rest.contains(part)), "{line} {part}: {faults:#?}");
    }
    assert!(why.starts_with(FILE), "{why}");
    let none = parsed("dns:a.b agent x\n").unwrap_err();
    assert!(none.contains("cluster NAME"), "{none}");
    let twice = parsed("cluster a\ncluster b\n").unwrap_err();
    assert!(twice.contains("line 2: cluster: is said twice"), "{twice}");
    let bytes = Mapping::parse(Path::new(FILE), b"cluster \xff").unwrap_err().to_string();
    assert!(bytes.contains("UTF-8"), "{bytes}");
}

#[test]
fn uris_of_our_own_form_are_never_mapped() {
    let mapping = parsed(GOOD).unwrap();
    for own in [
        "spiffe://example.org/east/agent/n1",
        "spiffe://example.org/east",
        "spiffe://example.org",
        "spiffe://other.org/west/operator/ann",
    ] {
        assert!(mapping.is_own_uri(own), "{own}");
    }
    for foreign in ["https://corp.example/gw#1", "spiffe://example.org.evil/x", "spiffe://corp/a"] {
        assert!(!mapping.is_own_uri(foreign), "{foreign}");
    }
}

#[test]
fn identity_uris_are_refused_where_only_mapped_names_count() {
    parsed("cluster c\n").unwrap().check_own_uri().unwrap();
    let refused = parsed("cluster c\nonly-mapped\n").unwrap().check_own_uri().unwrap_err();
    assert!(refused.to_string().contains("only-mapped"), "{refused}");
    assert!(parsed("cluster c\nonly-mapped yes\n").unwrap_err().contains("line 2"));
}

#[test]
fn what_a_stranger_wrote_into_a_name_stays_on_its_line() {
    let names =
        CertificateNames { common_names: vec!["a\nlevel=error".to_owned()], ..dns(&["x.y"; 20]) };
    let shown = names.to_string();
    assert!(!shown.contains('\n') && shown.contains("and 9 more"), "{shown}");
}
