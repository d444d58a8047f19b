//! The text of a mapping file.
//!
//! ```text
//!   cluster east                                    # required, once
//!   trust-domain persys.local                       # optional, once
//!   only-mapped                                     # optional: certificates with our URIs are refused
//!   dns:persys-scheduler.persys.local  scheduler s1
//!   dns:*.nodes.example.org            agent     *  # the label is the node
//!   ip:10.0.0.5                        agent     node1
//!   cn:"Ann Smith"                     operator  ann
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::{Pattern, Row, RowName, TRUST_DOMAIN};
use crate::names::{ClusterName, Identity, Name, Role, TrustDomain, is_label};

/// Longest name of a certificate that a row may state.
const MOST_NAME_BYTES: usize = 512;
/// Longest DNS name.
const MOST_DNS_BYTES: usize = 253;
/// Labels that must follow the wildcard: one alone would be everybody below `.com`.
const LEAST_LABELS: usize = 2;
/// Longest text of the file that a message repeats.
const MOST_REPEATED: usize = 80;

/// One thing that is wrong with the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong, and what is expected.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

/// A file without faults.
pub(super) struct Parsed {
    pub(super) trust_domain: TrustDomain,
    pub(super) cluster: ClusterName,
    pub(super) only_mapped: bool,
    pub(super) rows: BTreeMap<Pattern, Row>,
}

#[derive(Default)]
struct Reading {
    trust_domain: Option<TrustDomain>,
    cluster: Option<ClusterName>,
    only_mapped: bool,
    rows: BTreeMap<Pattern, Row>,
    faults: Vec<Fault>,
}

/// Reads the whole text; all faults, or none and what it says.
pub(super) fn parse(text: &[u8]) -> Result<Parsed, Vec<Fault>> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(vec![Fault { line: 0, text: "is not UTF-8 text".to_owned() }]);
    };
    let mut reading = Reading::default();
    for (index, line) in text.lines().enumerate() {
        let line_number = index.saturating_add(1);
        if let Err(text) = reading.line(line_number, line) {
            reading.faults.push(Fault { line: line_number, text });
        }
    }
    let Reading { trust_domain, cluster, only_mapped, rows, mut faults } = reading;
    let has_cluster_fault = faults.iter().any(|fault| fault.text.starts_with("cluster"));
    if cluster.is_none() && !has_cluster_fault {
        let text = "no line `cluster NAME` says which cluster this is about".to_owned();
        faults.push(Fault { line: 0, text });
    }
    let trust_domain = trust_domain.map_or_else(|| TrustDomain::new(TRUST_DOMAIN), Ok);
    match (cluster, trust_domain) {
        (Some(cluster), Ok(trust_domain)) if faults.is_empty() => {
            Ok(Parsed { trust_domain, cluster, only_mapped, rows })
        }
        _ => Err(faults),
    }
}

impl Reading {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let words = words(line)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => Ok(()),
            ["cluster", rest @ ..] => self.cluster(rest),
            ["trust-domain", rest @ ..] => self.trust_domain(rest),
            ["only-mapped"] => {
                self.only_mapped = true;
                Ok(())
            }
            [pattern, role, name] => self.row(number, pattern, role, name),
            [first, ..] => {
                let count = words.len();
                Err(format!(
                    "{} begins a line of {count} words; a row is `<kind>:<value> <role> <name>`, such \
                     as `dns:node1.example.org agent node1`",
                    repeated(first)
                ))
            }
        }
    }

    fn cluster(&mut self, rest: &[&str]) -> Result<(), String> {
        let [text] = rest else { return Err("cluster: one name follows it".to_owned()) };
        let name = ClusterName::new(text).map_err(|fault| format!("cluster: {fault}"))?;
        match self.cluster.replace(name) {
            None => Ok(()),
            Some(_) => Err("cluster: is said twice; a file is about one cluster".to_owned()),
        }
    }

    fn trust_domain(&mut self, rest: &[&str]) -> Result<(), String> {
        let [text] = rest else { return Err("trust-domain: one name follows it".to_owned()) };
        let name = TrustDomain::new(text).map_err(|fault| format!("trust-domain: {fault}"))?;
        match self.trust_domain.replace(name) {
            None => Ok(()),
            Some(_) => Err("trust-domain: is said twice".to_owned()),
        }
    }

    fn row(&mut self, number: usize, text: &str, role: &str, name: &str) -> Result<(), String> {
        let pattern = pattern(text)?;
        let role = Role::parse(role).map_err(|fault| fault.to_string())?;
        let name = row_name(&pattern, role, name)?;
        if let Some(before) = self.rows.get(&pattern) {
            let line = before.line;
            return Err(format!("{pattern} stands in line {line} already; a name has one row"));
        }
        self.rows.insert(pattern, Row { line: number, role, name });
        Ok(())
    }
}

/// The words of a line. Quotes keep spaces in a word; a word that begins with `#` begins a comment.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let (mut word, mut quoted) = (String::new(), false);
        let mut end = rest.len();
        for (at, letter) in rest.char_indices() {
            if letter == '"' {
                quoted = !quoted;
            } else if letter.is_whitespace() && !quoted {
                end = at;
                break;
            } else if letter.is_control() {
                return Err("holds a control character".to_owned());
            } else {
                word.push(letter);
            }
        }
        if quoted {
            return Err("a quote is not closed".to_owned());
        }
        words.push(word);
        rest = rest.get(end..).unwrap_or_default().trim_start();
    }
    Ok(words)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let Some((kind, value)) = text.split_once(':') else {
        return Err(format!("{}: {KINDS}", repeated(text)));
    };
    if value.is_empty() || value.len() > MOST_NAME_BYTES || value != value.trim() {
        return Err(format!("{kind}: a name of 1 to {MOST_NAME_BYTES} bytes follows the colon"));
    }
    match kind {
        "cn" if value.starts_with('*') => Err("cn: a wildcard counts in dns: alone".to_owned()),
        "cn" => Ok(Pattern::CommonName(value.to_owned())),
        "dns" => dns(value),
        "ip" => match value.parse::<IpAddr>() {
            Ok(address) => Ok(Pattern::Address(address.to_canonical())),
            Err(_) => Err(format!("ip: {} is not an address", repeated(value))),
        },
        "email" => match value.split_once('@') {
            Some((local, domain)) if !local.is_empty() && is_dns(domain) && local != "*" => {
                Ok(Pattern::Email(value.to_owned()))
            }
            _ => Err(format!("email: {} is not a mail address", repeated(value))),
        },
        "uri" if Identity::parse(value).is_ok() => {
            Err("uri: a certificate with an identity of ours is known by it and needs no row"
                .into())
        }
        "uri" if value.contains(':') && !value.contains('*') => Ok(Pattern::Uri(value.to_owned())),
        "uri" => Err(format!("uri: {} is not a URI; it is compared as a whole", repeated(value))),
        other => Err(format!("{}: {KINDS}", repeated(other))),
    }
}

const KINDS: &str = "is none of cn:, dns:, ip:, email:, uri:";

fn dns(value: &str) -> Result<Pattern, String> {
    let (below, text) = match value.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    if text.contains('*') {
        return Err(
            "dns: a wildcard is the whole first label, as in *.nodes.example.org".to_owned()
        );
    }
    if !is_dns(text) {
        return Err(format!("dns: {} is not a DNS name in lower case", repeated(value)));
    }
    if !below {
        return Ok(Pattern::Dns(text.to_owned()));
    }
    if text.split('.').count() < LEAST_LABELS {
        return Err(format!(
            "dns: {} is too wide: at least {LEAST_LABELS} labels follow the wildcard",
            repeated(value)
        ));
    }
    Ok(Pattern::DnsBelow(text.to_owned()))
}

/// The name that a row gives; wildcards are for the many with few rights.
fn row_name(pattern: &Pattern, role: Role, name: &str) -> Result<RowName, String> {
    let below = matches!(pattern, Pattern::DnsBelow(_));
    match (below, name, role) {
        (true, "*", Role::Agent | Role::User | Role::Metrics) => Ok(RowName::Label),
        (true, "*", Role::Scheduler | Role::Gateway | Role::Operator) => Err(format!(
            "{pattern}: a wildcard cannot give the role {role}: such a role goes to exact names, a row each"
        )),
        (true, ..) => Err(format!(
            "{pattern}: with a wildcard the name is `*`, the label it stands for: else many \
             certificates would share one identity"
        )),
        (false, "*", _) => Err("the name `*` goes with a dns: wildcard".to_owned()),
        (false, ..) => Name::new(name).map(RowName::Fixed).map_err(|fault| fault.to_string()),
    }
}

fn is_dns(text: &str) -> bool {
    let is_address = text.parse::<IpAddr>().is_ok();
    text.len() <= MOST_DNS_BYTES && !is_address && text.split('.').all(is_label)
}

fn repeated(text: &str) -> String {
    let cut: String = text.chars().take(MOST_REPEATED).collect();
    format!("{cut:?}")
}
