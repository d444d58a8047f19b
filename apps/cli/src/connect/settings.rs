//! Which settings are in effect, and where each came from.
//!
//! ```text
//!   flag  >  variable  >  context  >  settings file  >  what is usual
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::{self, Keys};
use crate::args::{Global, Target, Transport};
use crate::context;
use crate::problem::Problem;
use crate::world::World;

/// Where a scheduler and an agent usually are.
const SCHEDULER: &str = "localhost:8085";
const SCHEDULER_PORT: u16 = 8085;
const RPC_TIMEOUT: Duration = Duration::from_secs(20);

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Variable(&'static str),
    File(PathBuf),
    Usual,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Usual => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct From<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// A token. Printing it shows nothing.
#[derive(Clone)]
pub(crate) struct Token(pub(crate) String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What is in effect.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) home: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) context: Option<From<String>>,
    pub(crate) endpoint: From<String>,
    pub(crate) identity: Option<From<PathBuf>>,
    pub(crate) ca: Option<From<PathBuf>>,
    pub(crate) cert: Option<From<PathBuf>>,
    pub(crate) key: Option<From<PathBuf>>,
    pub(crate) tls_names: Option<From<PathBuf>>,
    pub(crate) insecure: From<bool>,
    pub(crate) rpc_timeout: From<Duration>,
    pub(crate) target: Option<From<String>>,
    /// Why changes are made.
    pub(crate) because: Option<String>,
    /// What proves who is calling, beside the certificate.
    pub(crate) token: Option<Token>,
    /// Told with every command.
    pub(crate) note: Option<String>,
    /// Keys of the settings file that mean nothing here.
    pub(crate) unused: Vec<String>,
}

/// The settings in effect, or what is wrong with them.
pub(crate) fn resolve(global: &Global, world: &World) -> Result<Settings, Problem> {
    let home = context::home(world.var("PERSYS_HOME"), world.var("HOME"));
    let (config, must_exist) = match (&global.config, world.var("PERSYS_CONFIG")) {
        (Some(path), _) => (path.clone(), true),
        (None, Some(path)) => (PathBuf::from(path), true),
        (None, None) => (home.join("config.yaml"), false),
    };
    let flat = match file::load(&config)? {
        Some(keys) => keys,
        None if must_exist => {
            let what = format!("the settings file {} does not exist", config.display());
            return Err(Problem::new(what));
        }
        None => Keys::default(),
    };
    let said = global.endpoint.is_some()
        || world.var("PERSYS_ENDPOINT").is_some()
        || flat.endpoint.is_some();
    let chosen = chosen_context(global, world, &home, said);
    let (in_context, context_file) = match &chosen {
        None => (Keys::default(), PathBuf::new()),
        Some(name) => load_context(&home, name)?,
    };
    let layers = Layers { world, context: (&in_context, &context_file), flat: (&flat, &config) };
    refuse_http(global, &layers)?;
    let settings = Settings {
        endpoint: layers
            .text(global.endpoint.clone(), ENDPOINT, |keys| keys.endpoint.clone())
            .unwrap_or(From { value: SCHEDULER.to_owned(), origin: Origin::Usual }),
        insecure: layers
            .pick(global.insecure.then_some((true, "--insecure")), |keys| keys.insecure)
            .unwrap_or(From { value: false, origin: Origin::Usual }),
        rpc_timeout: layers
            .pick(
                global
                    .rpc_timeout_seconds
                    .map(|length| (length, "--rpc-timeout-seconds"))
                    .or(global.timeout.map(|length| (length.min(RPC_TIMEOUT), "--timeout"))),
                |keys| keys.rpc_timeout,
            )
            .unwrap_or(From { value: RPC_TIMEOUT, origin: Origin::Usual }),
        target: layers.pick(
            global.grpc_target.map(|target| (target_word(target).to_owned(), "--grpc-target")),
            |keys| keys.target.clone(),
        ),
        because: global.because.clone().filter(|text| !text.is_empty()),
        token: global
            .token
            .clone()
            .or_else(|| world.var("PERSYS_TOKEN").map(str::to_owned))
            .filter(|text| !text.is_empty())
            .map(Token),
        note: in_context.note.clone().or(flat.note.clone()),
        unused: flat.unused.clone(),
        identity: None,
        ca: None,
        cert: None,
        key: None,
        tls_names: None,
        context: chosen,
        home,
        config: config.clone(),
    };
    Ok(with_certificates(settings, global, &layers))
}

const ENDPOINT: Names = Names { flag: "--endpoint", variable: "PERSYS_ENDPOINT" };
const TLS_NAMES: Names = Names { flag: "--cert-names", variable: "PERSYS_TLS_NAMES" };
const IDENTITY: Names = Names { flag: "--identity", variable: "PERSYS_IDENTITY" };

#[derive(Clone, Copy)]
struct Names {
    flag: &'static str,
    variable: &'static str,
}

fn target_word(target: Target) -> &'static str {
    match target {
        Target::Scheduler => "scheduler",
        Target::Agent => "agent",
    }
}

fn chosen_context(
    global: &Global,
    world: &World,
    home: &Path,
    endpoint_said: bool,
) -> Option<From<String>> {
    if let Some(name) = &global.context {
        return Some(From { value: name.clone(), origin: Origin::Flag("--context") });
    }
    if let Some(name) = world.var("PERSYS_CONTEXT") {
        let origin = Origin::Variable("PERSYS_CONTEXT");
        return Some(From { value: name.to_owned(), origin });
    }
    if let Some(name) = context::current(home) {
        return Some(From { value: name, origin: Origin::File(home.join("current_context")) });
    }
    let dev = context::path(home, context::DEV).ok()?;
    (!endpoint_said && dev.exists())
        .then(|| From { value: context::DEV.to_owned(), origin: Origin::Usual })
}

fn load_context(home: &Path, name: &From<String>) -> Result<(Keys, PathBuf), Problem> {
    let what = || format!("there is no context {:?} (from {})", name.value, name.origin);
    let path = context::path(home, &name.value)
        .map_err(|why| Problem::new(what()).why(why.to_string()))?;
    if let Some(keys) = file::load(&path)? {
        return Ok((keys, path));
    }
    let all = context::all(home);
    let why = if all.is_empty() {
        format!("{} has none", home.join("contexts").display())
    } else {
        format!("there are {}", all.join(", "))
    };
    Err(Problem::new(what()).why(why).next("persys config").next("persys dev"))
}

fn refuse_http(global: &Global, layers: &Layers<'_>) -> Result<(), Problem> {
    let flag = global.transport.map(|transport| match transport {
        Transport::Grpc => ("grpc".to_owned(), "--transport"),
        Transport::Http => ("http".to_owned(), "--transport"),
    });
    match layers.pick(flag, |keys| keys.transport.clone()) {
        None => Ok(()),
        Some(found) if found.value == "grpc" => Ok(()),
        Some(found) => {
            let why = format!("{:?} comes from {}", found.value, found.origin);
            let mut problem = Problem::new("the cluster is spoken to over gRPC alone so far")
                .why(why)
                .why("http goes through the gateway, which this version does not have")
                .next("persys --transport grpc --endpoint HOST:8085 ...");
            if matches!(found.origin, Origin::Flag(_)) {
                problem.code = crate::problem::USAGE;
            }
            Err(problem)
        }
    }
}

/// Certificates belong together: they are taken from the first layer that has any.
fn with_certificates(mut settings: Settings, global: &Global, layers: &Layers<'_>) -> Settings {
    let flag = global.tls_names.as_ref().map(|path| path.display().to_string());
    let in_file = |keys: &Keys| keys.tls_names.as_ref().map(|path| path.display().to_string());
    settings.tls_names = layers
        .text(flag, TLS_NAMES, in_file)
        .map(|found| From { value: PathBuf::from(found.value), origin: found.origin });
    let flagged = [&global.ca, &global.cert, &global.key].into_iter().any(Option::is_some);
    if !flagged {
        let flag = global.identity.as_ref().map(|path| path.display().to_string());
        settings.identity = layers
            .text(flag, IDENTITY, |keys| {
                keys.identity.as_ref().map(|path| path.display().to_string())
            })
            .map(|found| From { value: PathBuf::from(found.value), origin: found.origin });
    }
    let usual = |name: &str| {
        let path = settings.home.join(name);
        path.exists().then_some(From { value: path, origin: Origin::Usual })
    };
    let file = |flag: &Option<PathBuf>, name, of: fn(&Keys) -> Option<PathBuf>, default: &str| {
        layers.pick(flag.clone().map(|path| (path, name)), of).or_else(|| usual(default))
    };
    let ca = file(&global.ca, "--ca", |keys| keys.ca.clone(), "ca.pem");
    let cert = file(&global.cert, "--cert", |keys| keys.cert.clone(), "persysctl.pem");
    let key = file(&global.key, "--key", |keys| keys.key.clone(), "persysctl-key.pem");
    (settings.ca, settings.cert, settings.key) = (ca, cert, key);
    settings
}

/// Everything below the flags.
struct Layers<'a> {
    world: &'a World,
    context: (&'a Keys, &'a Path),
    flat: (&'a Keys, &'a Path),
}

impl Layers<'_> {
    fn pick<T>(
        &self,
        flag: Option<(T, &'static str)>,
        of: impl Fn(&Keys) -> Option<T>,
    ) -> Option<From<T>> {
        if let Some((value, name)) = flag {
            return Some(From { value, origin: Origin::Flag(name) });
        }
        [self.context, self.flat].into_iter().find_map(|(keys, path)| {
            of(keys).map(|value| From { value, origin: Origin::File(path.to_owned()) })
        })
    }

    /// The same for what has a variable, too.
    fn text(
        &self,
        flag: Option<String>,
        names: Names,
        of: impl Fn(&Keys) -> Option<String>,
    ) -> Option<From<String>> {
        let flag = flag.map(|value| From { value, origin: Origin::Flag(names.flag) });
        let variable = || {
            let value = self.world.var(names.variable)?.to_owned();
            Some(From { value, origin: Origin::Variable(names.variable) })
        };
        flag.or_else(variable).or_else(|| self.pick(None, of))
    }
}

/// `host:port` of what people write as an address.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let bare = ["http://", "https://", "grpc://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))
        .unwrap_or(text)
        .trim_end_matches('/');
    let wrong = || format!("{text:?} is not an address; write host:port");
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().ok().filter(|port: &u16| *port > 0).ok_or_else(wrong)?)
        }
        Some(_) => return Err(format!("{text:?} is not an address; write [address]:port")),
        None => (bare, SCHEDULER_PORT),
    };
    let sound = |letter: char| letter.is_ascii_alphanumeric() || "-._[]:%".contains(letter);
    if host.is_empty() || !host.chars().all(sound) {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::context::Context;

    fn world(home: &Path, more: &[(&str, &str)]) -> World {
        let mut env = BTreeMap::from([("PERSYS_HOME".to_owned(), home.display().to_string())]);
        env.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        World::kept(env, b"")
    }

    #[test]
    fn a_flag_beats_a_variable_beats_a_context_beats_a_file() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let none = Global::default();
        let found = resolve(&none, &world(home, &[])).unwrap();
        assert_eq!(found.endpoint, From { value: SCHEDULER.to_owned(), origin: Origin::Usual });

        let config = home.join("config.yaml");
        std::fs::write(&config, "grpc_endpoint: file:1\n").unwrap();
        let context = Context {
            endpoint: "context:2".to_owned(),
            note: Some("sim".to_owned()),
            ..Context::default()
        };
        let context_file = context::write(home, "dev", &context).unwrap();
        let found = resolve(&none, &world(home, &[])).unwrap();
        assert_eq!(found.endpoint.origin, Origin::File(config), "something is configured");

        context::choose(home, "dev").unwrap();
        let found = resolve(&none, &world(home, &[])).unwrap();
        let wanted = From { value: "context:2".to_owned(), origin: Origin::File(context_file) };
        assert_eq!(found.endpoint, wanted);
        assert_eq!(found.note.as_deref(), Some("sim"));

        let variables = world(home, &[("PERSYS_ENDPOINT", "variable:3")]);
        let found = resolve(&none, &variables).unwrap();
        assert_eq!(found.endpoint.value, "variable:3");
        let flag = Global { endpoint: Some("flag:4".to_owned()), ..Global::default() };
        let found = resolve(&flag, &variables).unwrap();
        assert_eq!(
            found.endpoint,
            From { value: "flag:4".to_owned(), origin: Origin::Flag("--endpoint") }
        );
    }

    #[test]
    fn the_development_cluster_is_found_when_nothing_is_configured() {
        let home = tempfile::tempdir().unwrap();
        let context = Context { endpoint: "127.0.0.1:9".to_owned(), ..Context::default() };
        context::write(home.path(), "dev", &context).unwrap();
        let found = resolve(&Global::default(), &world(home.path(), &[])).unwrap();
        assert_eq!(found.endpoint.value, "127.0.0.1:9");
        assert_eq!(found.context.unwrap().value, "dev");
        let strange = Global { context: Some("prod".to_owned()), ..Global::default() };
        let problem = resolve(&strange, &world(home.path(), &[])).unwrap_err();
        assert_eq!(problem.what, "there is no context \"prod\" (from flag --context)");
        assert_eq!(problem.why, ["there are dev"]);
    }

    #[test]
    fn http_is_refused_with_what_to_use() {
        let home = tempfile::tempdir().unwrap();
        let global = Global { transport: Some(Transport::Http), ..Global::default() };
        let problem = resolve(&global, &world(home.path(), &[])).unwrap_err();
        assert_eq!(problem.code, crate::problem::USAGE);
        assert!(problem.next.concat().contains("--transport grpc"));
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, wanted) in [
            ("h:1", "h:1"),
            ("http://h:1/", "h:1"),
            ("h", "h:8085"),
            ("[::1]:9", "[::1]:9"),
            ("127.0.0.1:80", "127.0.0.1:80"),
        ] {
            assert_eq!(address(text).as_deref(), Ok(wanted), "{text}");
        }
        for text in ["", ":1", "h:0", "h:99999", "::1", "a b:1", "h:x"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
