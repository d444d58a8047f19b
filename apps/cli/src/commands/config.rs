//! `config`: what is in effect, where it came from, and which context is used.

use serde_json::{Map, Value, json};

use crate::args::{Config, ConfigCommand};
use crate::connect::settings::{From, Origin};
use crate::context;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show::table::table;

/// `config`.
pub(super) fn run(shell: &Shell, config: &Config) -> Result<u8, Problem> {
    match &config.command {
        None => show(shell),
        Some(ConfigCommand::Use { context }) => choose(shell, context),
    }
}

fn choose(shell: &Shell, name: &str) -> Result<u8, Problem> {
    let home = &shell.settings.home;
    let all = context::all(home);
    if !all.iter().any(|known| known == name) {
        let why = if all.is_empty() {
            format!("{} has none", home.join("contexts").display())
        } else {
            format!("there are {}", all.join(", "))
        };
        return Err(Problem::new(format!("there is no context {name:?}")).why(why));
    }
    context::choose(home, name)
        .map_err(|why| Problem::new("the context cannot be chosen").why(why.to_string()))?;
    shell.line(&format!("commands go to {name} from now on"))?;
    Ok(0)
}

fn show(shell: &Shell) -> Result<u8, Problem> {
    let settings = &shell.settings;
    let mut rows: Vec<(&str, String, String)> = Vec::new();
    let mut add =
        |name, value: String, origin: &Origin| rows.push((name, value, origin.to_string()));
    add("endpoint", settings.endpoint.value.clone(), &settings.endpoint.origin);
    add("insecure", settings.insecure.value.to_string(), &settings.insecure.origin);
    let files = [
        ("identity", &settings.identity),
        ("ca", &settings.ca),
        ("cert", &settings.cert),
        ("key", &settings.key),
        ("tls names", &settings.tls_names),
    ];
    for (name, found) in files {
        if let Some(From { value, origin }) = found {
            add(name, value.display().to_string(), origin);
        }
    }
    let timeout = humantime::format_duration(settings.rpc_timeout.value).to_string();
    add("rpc timeout", timeout, &settings.rpc_timeout.origin);
    if let Some(context) = &settings.context {
        add("context", context.value.clone(), &context.origin);
    }
    if let Some(target) = &settings.target {
        add("target", target.value.clone(), &target.origin);
    }
    let contexts = context::all(&settings.home);
    if shell.output().is_data() {
        let mut values = Map::new();
        for (name, value, origin) in rows {
            values.insert(name.replace(' ', "_"), json!({"value": value, "from": origin}));
        }
        values.insert("home".to_owned(), json!({"value": settings.home.display().to_string()}));
        values.insert("contexts".to_owned(), json!(contexts));
        values.insert("unused_keys".to_owned(), json!(settings.unused));
        shell.data(&Value::Object(values))?;
        return Ok(0);
    }
    let rows = rows.into_iter().map(|(name, value, from)| vec![name.to_owned(), value, from]);
    let mut text = table(&["SETTING", "VALUE", "FROM"], rows.collect());
    text.extend([format!("\nsettings file  {}\n", settings.config.display())]);
    if !contexts.is_empty() {
        text.extend([format!("contexts       {}\n", contexts.join(", "))]);
    }
    if !settings.unused.is_empty() {
        let keys = settings.unused.join(", ");
        text.extend([format!("not used       {keys} (keys of older versions)\n")]);
    }
    shell.print(&text)?;
    Ok(0)
}
