//! Which secrets a workload uses, and how it sees them.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_compose::Document;

use super::at::At;
use super::text::{EnvFor, count, env_name, number, shown};
use super::volume::inner_path;
use crate::id::SecretName;
use crate::secret::{FILE_MODE, FOLDER, MOST_USES, SecretSeen, SecretUse, Signal};
use crate::spec::draft::SecretDraft;
use crate::spec::{ComposeSpec, Kind};

/// Most that a permission can say.
const MOST_MODE: u32 = 0o777;
/// Largest number of a user or group.
const MOST_ID: i64 = 0x7fff_fffe;

/// What of a body a secret must not stand in the way of.
#[derive(Default)]
struct Taken {
    env: BTreeSet<Arc<str>>,
    paths: BTreeSet<Arc<str>>,
}

pub(super) fn secrets(at: &At<'_>, drafts: &[SecretDraft], kind: &Kind) -> Option<Vec<SecretUse>> {
    count(at, drafts.len(), MOST_USES)?;
    if let Kind::Compose(stack) = kind {
        if !drafts.is_empty() {
            at.fault("a stack names its secrets in its file: secrets with external: true");
        }
        return in_file(at, stack);
    }
    let mut taken = taken(at, kind, !drafts.is_empty());
    let mut uses = Vec::with_capacity(drafts.len());
    for (nth, draft) in drafts.iter().enumerate() {
        let here = at.index(nth);
        let secret = match SecretName::new(&draft.name) {
            Ok(name) => Some(name),
            Err(error) => here.field("name").refuse(error.to_string()),
        };
        let seen = seen(&here, draft, kind, &mut taken);
        uses.push(secret.zip(seen).map(|(secret, seen)| SecretUse { secret, seen }));
    }
    let uses: Vec<SecretUse> = uses.into_iter().collect::<Option<_>>()?;
    one_signal_each(at, &uses)?;
    Some(uses)
}

/// A secret that is seen several ways changes for all of them at once: what only a restart changes
/// cannot stand beside what is signalled.
fn one_signal_each(at: &At<'_>, uses: &[SecretUse]) -> Option<()> {
    let mut good = Some(());
    for (nth, used) in uses.iter().enumerate().filter(|(_, used)| used.signal().is_some()) {
        let others = uses.iter().filter(|other| other.secret == used.secret);
        for other in others.filter(|other| other.signal() != used.signal()) {
            let name = &used.secret;
            let why = match &other.seen {
                SecretSeen::Env(variable) => {
                    format!("{name} is the variable {variable} too, which only a restart changes")
                }
                SecretSeen::File { path, signal: None, .. } => {
                    format!("{name} is the file {path} too, for which no signal is given")
                }
                SecretSeen::File { path, signal: Some(signal), .. } => {
                    let signal = signal.word();
                    format!("{name} is the file {path} too, whose signal is {signal}")
                }
            };
            good = at.index(nth).field("signal").refuse(why);
        }
    }
    good
}

/// The secrets the services of a stack see, each way of seeing one once.
fn in_file(at: &At<'_>, stack: &ComposeSpec) -> Option<Vec<SecretUse>> {
    if !stack.source.file().reveal().contains("secrets") {
        return Some(Vec::new());
    }
    let mut uses = BTreeSet::new();
    let document = stack.read().document;
    for (target, file) in document.iter().flat_map(Document::secrets) {
        let secret = match SecretName::new(&file.name) {
            Ok(name) => name,
            Err(error) => return at.refuse(format!("\"{}\" {error}", shown(&file.name))),
        };
        let path = Arc::from(target);
        let (mode, uid, gid, signal) = (file.mode, file.uid, file.gid, file.signal);
        let seen = SecretSeen::File { path, mode, uid, gid, signal };
        uses.insert(SecretUse { secret, seen });
    }
    count(at, uses.len(), MOST_USES)?;
    Some(uses.into_iter().collect())
}

fn taken(at: &At<'_>, kind: &Kind, used: bool) -> Taken {
    match kind {
        Kind::Container(body) => Taken {
            env: body.env.keys().cloned().collect(),
            paths: (body.binds.iter().map(|bind| &bind.container_path))
                .chain(body.managed_volumes.iter().map(|volume| &volume.mount_path))
                .cloned()
                .collect(),
        },
        Kind::Compose(_) => Taken::default(),
        Kind::Vm(body) => {
            let init = &body.cloud_init;
            // cloud-init takes one list of files: the user's would replace ours unseen.
            if used && !init.vendor_data.is_empty() {
                at.fault("are handed to a VM as vendor_data, which is given already");
            }
            if used && init.user_data.reveal().contains("write_files") {
                at.fault("are handed to a VM as write_files, which user_data has already");
            }
            Taken::default()
        }
    }
}

fn seen(at: &At<'_>, draft: &SecretDraft, kind: &Kind, taken: &mut Taken) -> Option<SecretSeen> {
    let file_only = [
        ("path", !draft.path.is_empty()),
        ("mode", !draft.mode.is_empty()),
        ("uid", draft.uid != 0),
        ("gid", draft.gid != 0),
    ];
    let signal = signal(&at.field("signal"), draft, kind);
    if draft.env.is_empty() {
        let file = file(at, draft, signal.unwrap_or_default(), taken);
        return signal.and(file);
    }
    for (field, _) in file_only.iter().filter(|(_, given)| *given) {
        at.field(field).fault("is for a file, but env is given: give a secret twice to have both");
    }
    let here = at.field("env");
    match kind {
        Kind::Container(_) => {}
        Kind::Compose(_) | Kind::Vm(_) => {
            return here.refuse("a VM has no environment; leave it out to have a file");
        }
    }
    env_name(&here, &draft.env, EnvFor::Container)?;
    let name: Arc<str> = Arc::from(draft.env.as_str());
    if !taken.env.insert(Arc::clone(&name)) {
        return here.refuse(format!("{} is set already", shown(&name)));
    }
    Some(SecretSeen::Env(name))
}

/// The signal that tells of a new value: outer `None` for a faulty one.
#[expect(clippy::option_option, reason = "outer: well formed; inner: there is one")]
fn signal(at: &At<'_>, draft: &SecretDraft, kind: &Kind) -> Option<Option<Signal>> {
    if draft.signal.is_empty() {
        return Some(None);
    }
    if !draft.env.is_empty() {
        return at.refuse("is for a file: a variable of what runs cannot change");
    }
    match kind {
        Kind::Container(_) | Kind::Compose(_) => {}
        Kind::Vm(_) => {
            return at
                .refuse("a VM reads its secrets when it boots: no signal can reach its programs");
        }
    }
    match Signal::of(&draft.signal) {
        Ok(signal) => Some(Some(signal)),
        Err(why) => at.refuse(format!("\"{}\" {why}", shown(&draft.signal))),
    }
}

fn file(
    at: &At<'_>,
    draft: &SecretDraft,
    signal: Option<Signal>,
    taken: &mut Taken,
) -> Option<SecretSeen> {
    let here = at.field("path");
    let path = match draft.path.as_str() {
        "" => Some(Arc::from(format!("{FOLDER}/{}", draft.name))),
        given => inner_path(&here, given),
    };
    let mode = mode(&at.field("mode"), &draft.mode);
    let uid = number(&at.field("uid"), draft.uid, 0, MOST_ID);
    let gid = number(&at.field("gid"), draft.gid, 0, MOST_ID);
    let path = path?;
    if !taken.paths.insert(Arc::clone(&path)) {
        return here.refuse(format!("something else is mounted at {}", shown(&path)));
    }
    let id = |number: u64| u32::try_from(number).unwrap_or_default();
    Some(SecretSeen::File { path, mode: mode?, uid: id(uid?), gid: id(gid?), signal })
}

/// Permissions as people write them: in eights.
fn mode(at: &At<'_>, text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(FILE_MODE);
    }
    let mode = u32::from_str_radix(text.strip_prefix("0o").unwrap_or(text), 8).ok();
    match mode.filter(|mode| *mode <= MOST_MODE && text.len() <= 6) {
        Some(mode) => Some(mode),
        None => at.refuse(format!("\"{}\" is no permission such as 0400", shown(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use crate::spec::draft::{CloudInitDraft, ContainerDraft, Draft, VmDraft};

    fn draft(secrets: Vec<SecretDraft>) -> Draft {
        let body = ContainerDraft {
            image: "web".to_owned(),
            env: [("USER".to_owned(), "x".to_owned())].into(),
            ..ContainerDraft::default()
        };
        Draft { container: Some(body), secrets, ..Draft::default() }
    }

    fn named(name: &str) -> SecretDraft {
        SecretDraft { name: name.to_owned(), ..SecretDraft::default() }
    }

    #[test]
    fn a_secret_is_a_file_unless_a_variable_is_named() {
        let env = SecretDraft { env: "KEY".to_owned(), ..named("api") };
        let spec = check(&draft(vec![named("db"), env])).unwrap();
        let path = Arc::from("/run/secrets/db");
        let file = SecretSeen::File { path, mode: 0o400, uid: 0, gid: 0, signal: None };
        let seen: Vec<_> = spec.secrets.iter().map(|one| one.seen.clone()).collect();
        assert_eq!(seen, [file, SecretSeen::Env(Arc::from("KEY"))]);
    }

    fn signalled(signal: &str) -> SecretDraft {
        SecretDraft { signal: signal.to_owned(), ..named("db") }
    }

    #[test]
    fn a_file_may_name_the_signal_that_tells_of_a_new_value() {
        let spec = check(&draft(vec![signalled("HUP"), named("api")])).unwrap();
        let told: Vec<_> = spec.signals().into_iter().collect();
        assert_eq!(told, [(&SecretName::fixed("db"), Signal::Hup)]);
        // A version with a signal is another version, and one without is what it was.
        let plain = check(&draft(vec![named("db"), named("api")])).unwrap();
        assert_ne!(spec, plain);
    }

    #[test]
    fn a_signal_where_none_can_help_is_refused_with_the_reason() {
        let variable = SecretDraft { env: "KEY".to_owned(), ..named("db") };
        let elsewhere = |signal: &str| SecretDraft {
            path: "/etc/db".to_owned(),
            signal: signal.to_owned(),
            ..named("db")
        };
        for (secrets, words) in [
            (vec![signalled("KILL")], "SIGUSR2"),
            (vec![SecretDraft { env: "KEY".to_owned(), ..signalled("HUP") }], "cannot change"),
            (vec![variable, signalled("HUP")], "which only a restart changes"),
            (vec![signalled("HUP"), elsewhere("USR1")], "whose signal is SIGUSR1"),
            (vec![signalled("HUP"), elsewhere("")], "no signal is given"),
        ] {
            let faults = check(&draft(secrets)).unwrap_err().to_string();
            assert!(faults.contains("signal") && faults.contains(words), "{faults}");
        }
        let vm = VmDraft { vcpus: 1, memory_mb: 64, os_image: "d".into(), ..VmDraft::default() };
        let machine = Draft { vm: Some(vm), secrets: vec![signalled("HUP")], ..Draft::default() };
        let faults = check(&machine).unwrap_err().to_string();
        assert!(faults.contains("when it boots"), "{faults}");
    }

    #[test]
    fn what_a_secret_cannot_be_is_refused_by_name() {
        let full = |env: &str, path: &str, mode: &str| SecretDraft {
            env: env.to_owned(),
            path: path.to_owned(),
            mode: mode.to_owned(),
            ..named("db")
        };
        for (bad, path) in [
            (named("Db"), "spec.secrets[0].name"),
            (named(""), "spec.secrets[0].name"),
            (full("9X", "", ""), "spec.secrets[0].env"),
            (full("USER", "", ""), "spec.secrets[0].env"),
            (full("X", "/a", ""), "spec.secrets[0].path"),
            (full("", "a", ""), "spec.secrets[0].path"),
            (full("", "/a/../b", ""), "spec.secrets[0].path"),
            (full("", "", "999"), "spec.secrets[0].mode"),
            (full("", "", "1777"), "spec.secrets[0].mode"),
            (SecretDraft { uid: -1, ..named("db") }, "spec.secrets[0].uid"),
        ] {
            let faults = check(&draft(vec![bad.clone()])).unwrap_err();
            assert!(faults.listed().iter().any(|fault| fault.path == path), "{bad:?}: {faults}");
        }
        let twice = check(&draft(vec![named("db"), named("db")])).unwrap_err();
        assert!(twice.to_string().contains("something else is mounted"), "{twice}");
        let many = check(&draft(vec![named("db"); MOST_USES + 1])).unwrap_err();
        assert!(many.to_string().contains("at most 64"), "{many}");
    }

    #[test]
    fn a_vm_has_secrets_as_files_where_cloud_init_has_room_for_them() {
        let machine = |user_data: &str, secret: SecretDraft| Draft {
            vm: Some(VmDraft {
                vcpus: 1,
                memory_mb: 64,
                os_image: "debian".to_owned(),
                cloud_init_config: CloudInitDraft {
                    user_data: user_data.to_owned(),
                    ..CloudInitDraft::default()
                },
                ..VmDraft::default()
            }),
            secrets: vec![secret],
            ..Draft::default()
        };
        let plain = check(&machine("", named("db")));
        assert!(plain.is_ok(), "{plain:?}");
        let taken = check(&machine("#cloud-config\nwrite_files: []\n", named("db"))).unwrap_err();
        assert!(taken.to_string().contains("write_files"), "{taken}");
        let env = SecretDraft { env: "KEY".to_owned(), ..named("db") };
        assert!(check(&machine("", env)).unwrap_err().to_string().contains("no environment"));
    }
}
