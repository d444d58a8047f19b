//! How git is run: every word and every variable of it is here.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use persys_model::repository::{Protocol, Repository};
use persys_process::Child;

use crate::credentials::Token;
use crate::settings::Settings;

/// Where the commit is kept in the folder.
pub(crate) const FETCHED: &str = "refs/persys/fetched";
/// Memory git may address. Blobs beyond a megabyte are streamed, so it needs little.
const MEMORY: u64 = 2 * 1024 * 1024 * 1024;
/// Bytes of git's complaints that are kept.
const COMPLAINTS: usize = 16 * 1024;

/// What holds for every run of git, over whatever a system, a user or a repository may say.
const CONFIG: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.symlinks", "false"),
    ("core.bigFileThreshold", "1m"),
    ("credential.helper", ""),
    ("fetch.fsckObjects", "true"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.unpackLimit", "1"),
    ("gc.auto", "0"),
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "30"),
    ("maintenance.auto", "false"),
    ("pack.threads", "1"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("submodule.recurse", "false"),
    ("transfer.bundleURI", "false"),
    ("transfer.fsckObjects", "true"),
];

/// One run of git.
#[derive(Debug)]
pub(crate) struct Git<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) repository: &'a Repository,
    pub(crate) token: Option<&'a Token>,
    pub(crate) folder: &'a Path,
}

impl Git<'_> {
    /// Git with `args`, for so long, keeping so much of what it prints.
    pub(crate) fn child(&self, args: &[&str], deadline: Duration, output: usize) -> Child {
        let limits = [
            format!("--fsize={}", self.settings.limits.folder_bytes),
            format!("--as={MEMORY}"),
            "--core=0".to_owned(),
            "--".to_owned(),
            self.settings.git.display().to_string(),
        ];
        let args = limits.into_iter().chain(args.iter().map(|&arg| arg.to_owned())).collect();
        Child {
            program: self.settings.limiter.clone(),
            args,
            env: self.env(),
            folder: self.folder.to_owned(),
            deadline,
            output_limit: output.max(COMPLAINTS),
        }
    }

    fn env(&self) -> BTreeMap<String, String> {
        let folder = self.folder.display().to_string();
        let protocol = self.repository.protocol.word();
        let mut env: BTreeMap<String, String> = [
            ("PATH", "/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("HOME", &folder),
            ("XDG_CONFIG_HOME", &folder),
            ("GIT_DIR", &folder),
            ("GIT_CEILING_DIRECTORIES", &folder),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS", "/bin/false"),
            ("GIT_ALLOW_PROTOCOL", protocol),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_SSH_VARIANT", "ssh"),
            ("GIT_SSH_COMMAND", &self.ssh()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let mut config: Vec<(String, String)> =
            CONFIG.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        config.push((format!("protocol.{protocol}.allow"), "always".to_owned()));
        if let (Some(token), Some(origin)) = (self.token, origin(self.repository)) {
            config.push((format!("http.{origin}/.extraHeader"), token.header()));
        }
        // In the environment and not on the command line, which everybody on the host can read.
        env.insert("GIT_CONFIG_COUNT".to_owned(), config.len().to_string());
        for (nth, (key, value)) in config.into_iter().enumerate() {
            env.insert(format!("GIT_CONFIG_KEY_{nth}"), key);
            env.insert(format!("GIT_CONFIG_VALUE_{nth}"), value);
        }
        env
    }

    /// The command by which git starts ssh. A shell reads it, so the paths in it were checked when
    /// the settings were read.
    fn ssh(&self) -> String {
        let Some(ssh) = &self.settings.ssh else { return "/bin/false".to_owned() };
        let options = "-F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes \
                       -o GlobalKnownHostsFile=/dev/null -o IdentitiesOnly=yes -o IdentityAgent=none \
                       -o ForwardAgent=no -o ForwardX11=no -o ClearAllForwardings=yes \
                       -o PermitLocalCommand=no -o ConnectTimeout=15 -o UpdateHostKeys=no";
        format!(
            "{} {options} -o UserKnownHostsFile={} -i {}",
            self.settings.ssh_program.display(),
            ssh.known_hosts.display(),
            ssh.key.display()
        )
    }
}

/// `https://host[:port]` of an address that has one.
pub(crate) fn origin(repository: &Repository) -> Option<String> {
    if !matches!(repository.protocol, Protocol::Https | Protocol::Http) {
        return None;
    }
    let (scheme, rest) = repository.address.split_once("://")?;
    let (authority, _) = rest.split_once('/')?;
    Some(format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::settings::Ssh;

    #[test]
    fn a_token_is_in_the_environment_and_nowhere_on_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens");
        std::fs::write(&tokens, "https://me:s3cret@git.test\n").unwrap();
        std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let mut settings = Settings::default().within(PathBuf::from("/scratch"));
        settings.ssh =
            Some(Ssh { key: "/etc/persys/key".into(), known_hosts: "/etc/persys/hosts".into() });
        let repository = Repository::read("https://git.test/a.git").unwrap();
        let origin = origin(&repository).unwrap();
        assert_eq!(origin, "https://git.test");
        let token = crate::credentials::find(&tokens, &origin).unwrap();
        let (repository, token) = (&repository, token.as_ref());
        let git = Git { settings: &settings, repository, token, folder: Path::new("/scratch/x") };
        let child = git.child(&["fetch", "--", "https://git.test/a.git"], Duration::ZERO, 10);
        let header = token.unwrap().header();
        assert!(child.args.iter().all(|arg| !arg.contains(&header)), "{:?}", child.args);
        let at = child.env.iter().find(|(_, value)| **value == header).unwrap().0;
        let key = &child.env[&at.replace("VALUE", "KEY")];
        assert_eq!(key, "http.https://git.test/.extraHeader");
        assert_eq!(child.env["GIT_ALLOW_PROTOCOL"], "https");
        assert!(child.env["GIT_SSH_COMMAND"].contains("StrictHostKeyChecking=yes"));
        assert!(child.env["GIT_SSH_COMMAND"].ends_with("-i /etc/persys/key"));
    }
}
