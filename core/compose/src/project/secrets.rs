//! Secrets in files or variables: they go into the cluster, and the file names them there.

use super::beside::Beside;
use super::{Project, tree};
use crate::finding::{Place, shown};
use crate::grammar::is_name;
use crate::limits::SCALAR_BYTES;
use crate::yaml::{Node, Value};

/// A secret that must be in the cluster before the stack is. Printing one shows no value.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretGiven {
    /// Its name in the file.
    pub key: String,
    /// The cluster's name for it.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
}

impl std::fmt::Debug for SecretGiven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} as {}", self.key, self.name)
    }
}

/// Permissions of a secret whose service says none: as the compose program has them, whoever runs in
/// the service may read it.
const MODE: &str = "0444";

/// Finds what the secrets of `root` hold, and writes where they will be; says whether there are any.
pub(super) fn settle(
    at: &Place<'_>,
    root: &mut Node,
    project: &mut Project,
    beside: &mut Beside<'_, '_, '_>,
) -> bool {
    let Some(all) = tree::field_mut(root, "secrets") else { return false };
    let at = at.key("secrets", all.line);
    let mut keys = Vec::new();
    for entry in tree::entries_mut(&mut all.value) {
        let here = at.key(&entry.key, entry.line);
        let Some(found) = value(&here, &entry.value, beside) else { continue };
        let Ok(value) = found else { continue };
        let name = name(&project.name, &entry.key);
        here.changed(format!(
            "its value is put into the cluster as the secret {name}, sealed, and not into the file"
        ));
        let (external, named) = (tree::scalar("true"), tree::scalar(&name));
        entry.value.value = tree::map(entry.line, [("external", external), ("name", named)]);
        project.secrets.push(SecretGiven { key: entry.key.clone(), name, value });
        keys.push(entry.key.clone());
    }
    if !keys.is_empty()
        && let Some(services) = tree::field_mut(root, "services")
    {
        for service in tree::entries_mut(&mut services.value) {
            let Some(used) = tree::field_mut(&mut service.value, "secrets") else { continue };
            for item in tree::items_mut(&mut used.value) {
                readable(item, &keys);
            }
        }
    }
    !keys.is_empty()
}

/// The value of a secret; `None` for one that is the cluster's already.
fn value(at: &Place<'_>, node: &Node, beside: &Beside<'_, '_, '_>) -> Option<Result<Vec<u8>, ()>> {
    let refuse = |at: Place<'_>, why: String| {
        at.refused(why);
        Some(Err(()))
    };
    if let Some(entry) = tree::field(node, "file") {
        let here = at.key("file", entry.line);
        let path = tree::text(&entry.value).unwrap_or_default();
        return match beside.file(path, SCALAR_BYTES) {
            Ok(file) if file.bytes.is_empty() => {
                refuse(here, format!("{} has nothing in it", shown(path)))
            }
            Ok(file) => Some(Ok(file.bytes)),
            Err(why) => refuse(here, format!("{} {why}", shown(path))),
        };
    }
    let entry = tree::field(node, "environment")?;
    let here = at.key("environment", entry.line);
    let name = tree::text(&entry.value).unwrap_or_default();
    match beside.variable(name).filter(|value| !value.is_empty()) {
        Some(value) => Some(Ok(value.as_bytes().to_vec())),
        None => refuse(here, format!("the variable {} is not given", shown(name))),
    }
}

/// `project-secret`, of at most as many letters as a name has.
fn name(project: &str, key: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let whole: String = format!("{project}-{key}").to_lowercase().chars().map(letter).collect();
    let whole: String = whole.chars().take(crate::limits::NAME_BYTES).collect();
    let whole = whole.trim_matches('-').to_owned();
    if is_name(&whole) { whole } else { format!("secret-{whole}") }
}

/// Says of a secret out of a file who may read it, where the service does not.
fn readable(item: &mut Node, keys: &[String]) {
    let line = item.line;
    let source = tree::text_of(item, "source").or_else(|| tree::text(item)).map(str::to_owned);
    let Some(source) = source.filter(|source| keys.contains(source)) else { return };
    if matches!(item.value, Value::Scalar(_)) {
        item.value = tree::map(line, [("source", tree::scalar(source))]);
    }
    if tree::field(item, "mode").is_none() {
        tree::put(item, "mode", line, tree::scalar(MODE));
    }
}
