//! What a component is told, and by whom: a flag, a variable, a file, or nobody.
//!
//! Each component has one table of settings. Every row is a flag (`--grpc-port`), a key of the
//! configuration file (`grpc_port`) and, mostly, a variable (`GRPC_PORT`); the first of flag,
//! variable, file and default that says something counts. All that is wrong is named at once.

/// One row of a table.
macro_rules! setting {
    ($key:literal, [$($variable:literal),*], $default:literal, $help:literal) => {
        $crate::settings::Setting {
            key: $key,
            variables: &[$($variable),*],
            default: $default,
            help: $help,
        }
    };
}

pub(crate) mod agent;
pub(crate) mod ca;
mod etcd;
pub(crate) mod gateway;
mod git;
mod oidc;
#[cfg(test)]
mod page;
#[cfg(test)]
pub(crate) use page::understood;
pub(crate) mod read;
pub(crate) mod renewal;
pub(crate) mod scheduler;
mod storage;
pub(crate) mod telemetry;
#[cfg(test)]
mod variables;
pub(crate) mod vault;
mod vm;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Largest configuration file that is read.
const LARGEST_FILE: u64 = 256 * 1024;

/// The variable that names the configuration file.
pub(crate) const FILE_VARIABLE: &str = "PERSYS_CONFIG_FILE";

/// Settings whose values nobody sees.
const SECRET: [&str; 7] = [
    "etcd-password",
    "gitea-webhook-secret",
    "github-webhook-secret",
    "gitlab-webhook-secret",
    "otlp-headers",
    "vault-approle-secret-id",
    "vault-token",
];

/// One row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The flag, and the key of the file with `_` for `-`.
    pub(crate) key: &'static str,
    /// Variables that say it; the first that is set counts.
    pub(crate) variables: &'static [&'static str],
    /// What counts when nobody says anything.
    pub(crate) default: &'static str,
    /// One line for people.
    pub(crate) help: &'static str,
}

/// Whether a row is a switch: it can be named without a value.
fn is_switch(setting: &Setting) -> bool {
    matches!(setting.default, "true" | "false")
}

/// A variable that means nothing here, and why. One that ends with `*` stands for all that begin so.
pub(crate) type Unused = (&'static str, &'static str);

/// Who said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Variable(&'static str),
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Every setting with its value and who said it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    rows: BTreeMap<&'static str, (String, Origin)>,
}

impl Values {
    /// The text of a setting.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.rows.get(key).map_or("", |(value, _)| value)
    }

    /// The text of a setting, as anybody may see it.
    pub(crate) fn shown(&self, key: &str) -> &str {
        match self.text(key) {
            text if text.is_empty() || !SECRET.contains(&key) => text,
            _ => "(not shown)",
        }
    }

    /// Who said it.
    pub(crate) fn origin(&self, key: &str) -> Option<&Origin> {
        self.rows.get(key).map(|(_, origin)| origin)
    }

    /// Shows a setting as it follows from another that somebody said.
    fn follows(&mut self, key: &'static str, value: &str, from: &str) {
        if let Some(origin) = self.origin(from).cloned() {
            self.rows.insert(key, (value.to_owned(), origin));
        }
    }

    /// Whether anybody said it.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.rows.get(key).is_some_and(|(_, origin)| *origin != Origin::Default)
    }

    /// The table as people read it.
    pub(crate) fn table(&self) -> String {
        let widest = |of: fn(&str, &str) -> usize| {
            self.rows.keys().map(|key| of(key, self.shown(key))).max().unwrap_or(0)
        };
        let (first, second) = (widest(|key, _| key.len()), widest(|_, value| value.len()));
        let lines = self.rows.iter().map(|(key, (_, origin))| {
            format!("{key:first$}  {:second$}  {origin}\n", self.shown(key))
        });
        lines.collect()
    }
}

/// The command of a component, made from its table.
pub(crate) fn command(name: &'static str, about: &'static str, table: &[Setting]) -> Command {
    let file = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help(format!("A file with settings [{FILE_VARIABLE}]"));
    let arguments = table.iter().map(|setting| {
        let variable = setting.variables.first();
        let note = variable.map(|name| format!(" [{name}]")).unwrap_or_default();
        let default = match setting.default {
            "" => String::new(),
            text => format!(" (default {text})"),
        };
        let argument = Arg::new(setting.key)
            .long(setting.key)
            .help(format!("{}{default}{note}", setting.help))
            .action(ArgAction::Set);
        if is_switch(setting) {
            argument
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_name("BOOL")
        } else {
            argument.value_name("VALUE")
        }
    });
    Command::new(name).about(about).no_binary_name(true).arg(file).args(arguments).arg(
        Arg::new("action")
            .value_parser(["config"])
            .help("`config` prints the effective settings and where each came from"),
    )
}

/// Accepts `-insecure` for `--insecure`, as the documents write it.
pub(crate) fn with_two_dashes(word: OsString) -> OsString {
    match word.to_str() {
        Some(text) if text.len() > 2 && text.starts_with('-') && !text.starts_with("--") => {
            OsString::from(format!("-{text}"))
        }
        Some(_) | None => word,
    }
}

/// Brings together what everybody said.
pub(crate) fn resolve(
    table: &'static [Setting],
    typed: &ArgMatches,
    variable: impl Fn(&str) -> Option<String>,
    default_file: Option<&Path>,
) -> Result<Values, Vec<String>> {
    let mut faults = Vec::new();
    let named = typed.get_one::<String>("config").cloned().or_else(|| variable(FILE_VARIABLE));
    let file = named
        .map(PathBuf::from)
        .or_else(|| default_file.filter(|path| path.exists()).map(Path::to_path_buf));
    let in_file = match &file {
        None => BTreeMap::new(),
        Some(path) => read_file(path, table).unwrap_or_else(|found| {
            faults.extend(found);
            BTreeMap::new()
        }),
    };
    let mut values = Values::default();
    for setting in table {
        let flag = match typed.value_source(setting.key) {
            Some(ValueSource::CommandLine) => typed.get_one::<String>(setting.key).cloned(),
            Some(_) | None => None,
        };
        let said = |name: &&'static str| Some((variable(name)?, Origin::Variable(name)));
        let filed = || {
            let (value, path) = (in_file.get(setting.key)?, file.clone()?);
            Some((value.clone(), Origin::File(path)))
        };
        let found = flag
            .map(|value| (value, Origin::Flag))
            .or_else(|| setting.variables.iter().find_map(said))
            .or_else(filed)
            .unwrap_or_else(|| (setting.default.to_owned(), Origin::Default));
        values.rows.insert(setting.key, found);
    }
    etcd::settle(&mut values);
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

/// What a variable says; or, where it is not set, the file that `NAME_FILE` names.
pub(crate) fn said(set: &BTreeMap<String, String>, name: &str) -> Option<String> {
    if let Some(value) = set.get(name) {
        return Some(value.clone());
    }
    let path = set.get(&format!("{name}_FILE"))?;
    let size = std::fs::metadata(path).ok()?.len();
    let text = std::fs::read_to_string(path).ok().filter(|_| size <= LARGEST_FILE)?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// Variables that are set and mean nothing here, each with the reason.
pub(crate) fn unused(table: &[Unused], set: &BTreeMap<String, String>) -> Vec<String> {
    let why = |name: &str| table.iter().find(|row| covers(row, name)).map(|(_, why)| why);
    let said = set.iter().filter(|(_, value)| !value.is_empty());
    said.filter_map(|(name, _)| Some(format!("{name} has no effect: {}", why(name)?))).collect()
}

/// Whether a row is about the variable of this name.
pub(crate) fn covers((row, _): &Unused, name: &str) -> bool {
    match row.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => *row == name,
    }
}

fn read_file(path: &Path, table: &[Setting]) -> Result<BTreeMap<String, String>, Vec<String>> {
    let bad = |why: &dyn fmt::Display| vec![format!("{}: {why}", path.display())];
    let size = std::fs::metadata(path).map_err(|error| bad(&error))?.len();
    if size > LARGEST_FILE {
        return Err(bad(&format!("{size} bytes are more than the {LARGEST_FILE} a file may have")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let parsed: BTreeMap<String, serde_json::Value> =
        serde_saphyr::from_str(&text).map_err(|error| bad(&error))?;
    let mut found = BTreeMap::new();
    let mut faults = Vec::new();
    for (key, value) in parsed {
        let key = key.replace('_', "-");
        if !table.iter().any(|setting| setting.key == key) {
            faults.extend(bad(&format!("there is no setting {key:?}")));
            continue;
        }
        let value = match value {
            serde_json::Value::String(text) => text,
            serde_json::Value::Bool(yes) => yes.to_string(),
            serde_json::Value::Number(number) => number.to_string(),
            serde_json::Value::Null => String::new(),
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                faults.extend(bad(&format!("{key} takes one value, not several")));
                continue;
            }
        };
        found.insert(key, value);
    }
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Setting] = &[
        Setting { key: "port", variables: &["A_PORT", "PORT"], default: "1", help: "a port" },
        Setting { key: "insecure", variables: &[], default: "false", help: "no TLS" },
        Setting { key: "name", variables: &["NAME"], default: "", help: "a name" },
    ];

    fn resolved(line: &str, variables: &[(&str, &str)]) -> Result<Values, Vec<String>> {
        let words = line.split_whitespace().map(OsString::from).map(with_two_dashes);
        let typed = command("test", "a test", TABLE).try_get_matches_from(words).unwrap();
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        resolve(TABLE, &typed, variable, None)
    }

    #[test]
    fn flag_then_variable_then_file_then_default() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.yaml");
        std::fs::write(&path, "port: 4\nname: filed\n").unwrap();
        let file = format!("--config {}", path.display());
        let values = resolved(&format!("-port 2 -insecure {file}"), &[("PORT", "3")]).unwrap();
        assert_eq!((values.text("port"), values.text("insecure")), ("2", "true"));
        assert_eq!(values.text("name"), "filed");
        let values = resolved(&file, &[("PORT", "3"), ("A_PORT", "5")]).unwrap();
        assert_eq!(values.text("port"), "5");
        assert!(values.table().contains("A_PORT") && values.table().contains("settings.yaml"));
        let values = resolved("", &[]).unwrap();
        assert_eq!((values.text("port"), values.is_given("port")), ("1", false));
        let named = path.display().to_string();
        let values = resolved("", &[(FILE_VARIABLE, &named)]).unwrap();
        assert_eq!((values.text("port"), values.text("name")), ("4", "filed"));
    }

    #[test]
    fn a_variable_may_be_in_a_file_that_another_one_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "geheim\n").unwrap();
        let file = path.display().to_string();
        let set = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(said(&set(&[("A_FILE", &file)]), "A").as_deref(), Some("geheim"));
        assert_eq!(said(&set(&[("A_FILE", &file), ("A", "b")]), "A").as_deref(), Some("b"));
        assert_eq!(said(&set(&[("A_FILE", "/nowhere")]), "A"), None);
        assert_eq!(said(&set(&[]), "A"), None);
    }

    #[test]
    fn a_file_with_faults_names_them_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.yaml");
        std::fs::write(&path, "prot: 4\nname: [a, b]\n").unwrap();
        let faults = resolved(&format!("--config {}", path.display()), &[]).unwrap_err();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(resolved("--config /nowhere/at/all", &[]).is_err());
    }

    #[test]
    fn what_means_nothing_is_said() {
        let set = [("REDIS_ADDR", "x:1"), ("OTHER", ""), ("VAULT_ADDR", "y:1"), ("HOME", "/")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let table = [("REDIS_ADDR", "nothing is kept there"), ("OTHER", "?"), ("VAULT_*", "none")];
        let told = unused(&table, &set);
        let wanted =
            ["REDIS_ADDR has no effect: nothing is kept there", "VAULT_ADDR has no effect: none"];
        assert_eq!(told, wanted);
    }
}
