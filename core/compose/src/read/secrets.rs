//! Secrets: of the cluster, by name. A file has none of its own, and none beside it.

use std::collections::{BTreeMap, BTreeSet};

use super::mounts::add;
use super::network::named;
use super::service::Draft;
use super::value::{self, quoted};
use crate::document::Document;
use crate::finding::Place;
use crate::grammar::absolute_path;
use crate::limits::ENTRIES;
use crate::service::{Mount, MountSource, SecretFile};
use crate::signal::{SIGNAL_KEY, Signal};
use crate::yaml::{Node, Value};

const NOT_EXTERNAL: &str = "is not external: put the value into the cluster with `persys secret \
                            set NAME` and write `external: true` here";
/// Where services see secrets.
const FOLDER: &str = "/run/secrets";
/// Largest number of a user or group.
const MOST_ID: u64 = 0x7fff_fffe;

/// A secret of the file.
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// The cluster's name for it, if that is another.
    name: Option<String>,
    signal: Option<Signal>,
}

/// The secrets of the file.
pub(super) fn all(at: &Place<'_>, node: &Node) -> BTreeMap<String, Declared> {
    named(at, node, "is not a secret's name", one)
}

fn one(at: &Place<'_>, node: &Node) -> Option<Declared> {
    let (mut external, mut name, mut signal) = (false, None, None);
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "external" => external = value::truth(&here, node)?,
            "name" => name = value::text(&here, node),
            "labels" => here.ignored("nothing here reads them"),
            SIGNAL_KEY => match Signal::of(&value::text(&here, node)?) {
                Ok(known) => signal = Some(known),
                Err(why) => return here.refuse(why),
            },
            "file" | "environment" | "content" | "driver" | "driver_opts" | "template_driver" => {
                return here.refuse(NOT_EXTERNAL);
            }
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => return here.refuse(super::unknown("a secret", key, ["external", "name"])),
        }
    }
    if external { Some(Declared { name, signal }) } else { at.refuse(NOT_EXTERNAL) }
}

/// The secrets a service sees.
pub(super) fn of_service<'a>(draft: &mut Draft<'a>, at: &Place<'a>, node: &Node) {
    for (here, item) in value::list(at, node, ENTRIES).unwrap_or_default() {
        let secret = match &item.value {
            Value::Map(_) => long(&here, item),
            Value::Null | Value::Scalar(_) | Value::List(_) => {
                let name = value::text(&here, item);
                name.map(|name| (SecretFile { name, ..SecretFile::default() }, None))
            }
        };
        let Some((secret, target)) = secret else { continue };
        draft.names("secrets", &secret.name, &here);
        let target = target.unwrap_or_else(|| format!("{FOLDER}/{}", secret.name));
        match absolute_path(&target) {
            Ok(target) if target != "/" => {
                let source = MountSource::Secret(secret);
                add(draft, &here, Mount { source, target, read_only: true });
            }
            Ok(_) => drop(here.refuse::<()>("must not be the root")),
            Err(why) => drop(here.refuse::<()>(format!("target {why}"))),
        }
    }
}

/// A secret, and where it is seen if that is said.
fn long(at: &Place<'_>, node: &Node) -> Option<(SecretFile, Option<String>)> {
    let (mut secret, mut target) = (SecretFile::default(), None);
    let id = |at: &Place<'_>, node: &Node| {
        let number = value::count(at, node, 0, MOST_ID)?;
        u32::try_from(number).ok()
    };
    for entry in value::map(at, node, ENTRIES)? {
        let (here, node) = (at.key(&entry.key, entry.line), &entry.value);
        match entry.key.as_str() {
            "source" => secret.name = value::text(&here, node)?,
            "target" => {
                let text = value::text(&here, node)?;
                let whole = if text.starts_with('/') { text } else { format!("{FOLDER}/{text}") };
                target = Some(whole);
            }
            "uid" => secret.uid = id(&here, node)?,
            "gid" => secret.gid = id(&here, node)?,
            "mode" => secret.mode = mode(&here, node)?,
            key if key.starts_with("x-") => here.ignored("is the file's own"),
            key => {
                let known = ["source", "target", "uid", "gid", "mode"];
                return here.refuse(super::unknown("a service's secret", key, known));
            }
        }
    }
    if secret.name.is_empty() { at.refuse("has no source") } else { Some((secret, target)) }
}

/// Permissions, in eights.
fn mode(at: &Place<'_>, node: &Node) -> Option<u32> {
    let scalar = value::scalar(at, node)?;
    let digits = scalar.text.strip_prefix("0o").unwrap_or(&scalar.text);
    match u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777) {
        Some(mode) => Some(mode),
        None => at.refuse(format!("{} is no permission such as 0400", quoted(scalar))),
    }
}

/// What services name must be among the file's secrets, and is found under the cluster's name.
pub(super) fn settle(drafts: &mut [Draft<'_>], secrets: &BTreeMap<String, Declared>) {
    for draft in drafts {
        let mut unknown = Vec::new();
        for mount in &mut draft.service.mounts {
            let MountSource::Secret(secret) = &mut mount.source else { continue };
            match secrets.get(&secret.name) {
                Some(declared) => {
                    secret.signal = declared.signal;
                    if let Some(name) = &declared.name {
                        secret.name.clone_from(name);
                    }
                }
                None => unknown.push(secret.name.clone()),
            }
        }
        for name in unknown {
            let name_shown = crate::finding::shown(&name);
            let why = format!("names \"{name_shown}\", which is not under secrets of the file");
            draft.place_of("secrets", &name).refused(why);
        }
    }
}

impl Document {
    /// Every way in which a service sees a secret, with where it is seen.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &SecretFile)> {
        let mounts = self.services.values().flat_map(|service| &service.mounts);
        mounts.filter_map(|mount| match &mount.source {
            MountSource::Secret(secret) => Some((mount.target.as_str(), secret)),
            MountSource::Volume { .. }
            | MountSource::Anonymous
            | MountSource::Bind { .. }
            | MountSource::Tmpfs { .. } => None,
        })
    }

    /// The signals that each service gets when these secrets change.
    #[must_use]
    pub fn signals(&self, changed: impl Fn(&str) -> bool) -> BTreeMap<&str, BTreeSet<Signal>> {
        let mut signals: BTreeMap<&str, BTreeSet<Signal>> = BTreeMap::new();
        for (name, service) in &self.services {
            for mount in &service.mounts {
                if let MountSource::Secret(secret) = &mount.source
                    && changed(&secret.name)
                    && let Some(signal) = secret.signal
                {
                    signals.entry(name).or_default().insert(signal);
                }
            }
        }
        signals
    }
}

#[cfg(test)]
mod tests {
    use crate::{Marks, Verdict, read};

    fn refused(text: &str) -> Vec<String> {
        let findings = read(text, &std::collections::BTreeMap::new()).findings;
        let refused = findings.into_iter().filter(|one| one.verdict == Verdict::Refused);
        refused.map(|one| format!("{}: {}", one.path, one.why)).collect()
    }

    #[test]
    fn external_secrets_are_files_from_the_folder_of_the_agent() {
        let text = "services:\n  db:\n    image: pg\n    secrets:\n    - password\n    - source: \
                    key\n      target: tls.key\n      mode: 0440\n      uid: '999'\nsecrets:\n  \
                    password: {external: true}\n  key: {external: true, name: shop-key}\n";
        let reading = read(text, &std::collections::BTreeMap::new());
        let document = reading.document.unwrap_or_else(|| panic!("{:?}", reading.findings));
        let seen: Vec<_> = document.secrets().map(|(at, one)| (at, one.name.as_str())).collect();
        assert_eq!(
            seen,
            [("/run/secrets/password", "password"), ("/run/secrets/tls.key", "shop-key")]
        );
        let marks = Marks { secrets: Some("/run/persys/x".to_owned()), ..Marks::default() };
        let out = document.emit(&marks);
        assert!(out.contains("\"source\":\"/run/persys/x/password\""), "{out}");
        assert!(out.contains("\"source\":\"/run/persys/x/shop-key.0440.999.0\""), "{out}");
        assert!(!out.contains("secrets\":"), "{out}");
    }

    #[test]
    fn a_secret_names_a_signal_for_the_services_that_see_it() {
        let text = |signal: &str| {
            format!(
                "services:\n  a: {{image: i, secrets: [key]}}\n  b: {{image: i, secrets: [key, \
                 other]}}\n  c: {{image: i, secrets: [other]}}\nsecrets:\n  key: {{external: true, \
                 name: shop, x-persys-signal: {signal}}}\n  other: {{external: true}}\n"
            )
        };
        let reading = read(&text("HUP"), &std::collections::BTreeMap::new());
        let document = reading.document.unwrap_or_else(|| panic!("{:?}", reading.findings));
        let signals = document.signals(|name| name == "shop");
        assert_eq!(signals.keys().copied().collect::<Vec<_>>(), ["a", "b"]);
        assert!(signals.values().flatten().all(|signal| *signal == crate::Signal::Hup));
        assert!(document.signals(|name| name == "other").is_empty());
        let why = refused(&text("SIGKILL"));
        assert!(why.iter().any(|why| why.contains("SIGUSR1")), "{why:?}");
    }

    #[test]
    fn what_is_not_of_the_cluster_is_refused_with_the_way_out() {
        let file = "services: {a: {image: b, secrets: [s]}}\nsecrets: {s: {file: ./s}}";
        assert!(refused(file).iter().any(|why| why.contains("persys secret set")), "{file}");
        let plain = "services: {a: {image: b}}\nsecrets: {s: {}}";
        assert!(refused(plain).iter().any(|why| why.contains("external: true")), "{plain}");
        let unknown = "services: {a: {image: b, secrets: [t]}}\nsecrets: {s: {external: true}}";
        assert!(refused(unknown).iter().any(|why| why.contains("not under secrets")), "{unknown}");
        let taken = "services: {a: {image: b, secrets: [s], volumes: ['v:/run/secrets/s']}}\n\
                     volumes: {v: }\nsecrets: {s: {external: true}}";
        assert!(refused(taken).iter().any(|why| why.contains("earlier entry")), "{taken}");
    }
}
