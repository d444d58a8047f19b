//! `secret …`.

use std::time::SystemTime;

use persys_proto::compute::v1 as api;
use serde_json::Value;

use crate::args::{SecretCommand, SetSecret};
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;
use crate::show::moment::{age, clock};
use crate::show::table::{or_dash, pairs, table};

/// Most bytes of a value.
const MOST: u64 = 32 * 1024;

/// `secret …`.
pub(super) async fn run(shell: &Shell, command: SecretCommand) -> Result<u8, Problem> {
    match command {
        SecretCommand::Set(wanted) => set(shell, wanted).await,
        SecretCommand::List { place, all_namespaces } => {
            let namespace = if all_namespaces { "*".to_owned() } else { place.namespace };
            list(shell, &shell.client()?, namespace).await
        }
        SecretCommand::Show { name, place } => one(shell, name, place.namespace).await,
        SecretCommand::Delete { name, place } => delete(shell, name, place.namespace).await,
        SecretCommand::RotateKey => rotate(shell).await,
    }
}

async fn set(shell: &Shell, wanted: SetSecret) -> Result<u8, Problem> {
    let vault = vault(&wanted)?;
    let value = if vault.is_some() { Vec::new() } else { value(shell, &wanted).await? };
    let SetSecret { name, place, .. } = wanted;
    let what = format!("secret {name} was not set");
    if value.is_empty() && vault.is_none() {
        return Err(Problem::usage(what).why("the value is empty"));
    }
    let client = shell.client()?;
    let namespace = place.namespace;
    let request = api::SetSecretRequest { namespace, name, value, vault, unless_same: false };
    let answer = client.ask(&what, client.secrets().set_secret(request)).await?;
    let secret = answer.secret.unwrap_or_default();
    if shell.output().is_data() {
        shell.data(&show::compute("SecretView", &secret))?;
        return Ok(0);
    }
    let api::SecretView { name, version, digest, .. } = secret;
    shell.line(&format!("secret {name} is set (version {version}, {digest}); {}", answer.note))?;
    Ok(0)
}

/// The place in Vault, if the value is there.
fn vault(wanted: &SetSecret) -> Result<Option<api::VaultSource>, Problem> {
    let Some(text) = &wanted.vault else { return Ok(None) };
    let unusable = |why: &str| Problem::usage(format!("--vault {text}: {why}"));
    let Some((whole, field)) = text.split_once('#') else {
        return Err(unusable("the field is missing: MOUNT/PATH#FIELD"));
    };
    let split = match &wanted.vault_mount {
        Some(mount) => whole.strip_prefix(mount.as_str()).and_then(|rest| rest.strip_prefix('/')),
        None => whole.split_once('/').map(|(_, path)| path),
    };
    let Some(path) = split.filter(|path| !path.is_empty()) else {
        return Err(unusable("the path is missing or not in the mount: MOUNT/PATH#FIELD"));
    };
    let mount =
        whole.get(..whole.len().saturating_sub(path.len()).saturating_sub(1)).unwrap_or_default();
    Ok(Some(api::VaultSource {
        mount: mount.to_owned(),
        path: path.to_owned(),
        field: field.to_owned(),
        kv_version: wanted.kv_version,
        on_change: wanted.on_change.clone(),
    }))
}

/// Where a value comes from and how old it is, for people.
fn origin(secret: &api::SecretView, now: SystemTime) -> String {
    let Some(vault) = &secret.vault else { return secret.set_by.clone() };
    let api::VaultSource { mount, path, field, kv_version, on_change } = vault;
    let confirmed = match &secret.confirmed_at {
        Some(_) => format!("confirmed {} ago", age(secret.confirmed_at.as_ref(), now)),
        None => "not read yet".to_owned(),
    };
    format!("{mount}/{path}#{field} (kv {kv_version}, on change: {on_change}), {confirmed}")
}

/// The value, from where it was said to be. It is never part of a message.
async fn value(shell: &Shell, wanted: &SetSecret) -> Result<Vec<u8>, Problem> {
    let what = format!("secret {} was not set", wanted.name);
    let bytes = match &wanted.from_file {
        Some(path) if path.as_os_str() != "-" => {
            let size = std::fs::metadata(path).map(|found| found.len());
            if size.is_ok_and(|size| size > MOST) {
                return Err(
                    Problem::usage(what).why(format!("the file has more than {MOST} bytes"))
                );
            }
            return std::fs::read(path)
                .map_err(|error| Problem::new(what).why(format!("{}: {error}", path.display())));
        }
        Some(_) | None if !shell.world.in_terminal => shell
            .world
            .typed(MOST + 1)
            .map_err(|error| Problem::new(&what).why(error.to_string()))?,
        Some(_) | None => return prompt(shell, &wanted.name).await,
    };
    let mut bytes = bytes;
    if !wanted.keep_newline && bytes.last() == Some(&b'\n') {
        bytes.pop();
        bytes.pop_if(|last| *last == b'\r');
    }
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST {
        return Err(Problem::usage(what).why(format!("the value has more than {MOST} bytes")));
    }
    Ok(bytes)
}

/// Has the value typed without showing it.
async fn prompt(shell: &Shell, name: &str) -> Result<Vec<u8>, Problem> {
    const ENDS: [u8; 2] = [b'\r', b'\n'];
    const INTERRUPT: u8 = 3;
    const BACK: [u8; 2] = [8, 127];
    let failed = |error: std::io::Error| {
        Problem::new(format!("secret {name} was not set")).why(error.to_string())
    };
    shell.world.note(&format!("type the value of {name}, which is not shown, and press Enter"));
    crossterm::terminal::enable_raw_mode().map_err(failed)?;
    let (mut keys, mut value, mut stopped) = (shell.world.keys(), Vec::new(), false);
    'typing: while let Some(piece) = keys.recv().await {
        for byte in piece {
            if byte == INTERRUPT {
                stopped = true;
                break 'typing;
            }
            if ENDS.contains(&byte) {
                break 'typing;
            }
            if BACK.contains(&byte) {
                value.pop();
            } else {
                value.push(byte);
            }
        }
    }
    crossterm::terminal::disable_raw_mode().map_err(failed)?;
    if stopped {
        return Err(Problem::new(format!("secret {name} was not set")).why("interrupted"));
    }
    Ok(value)
}

async fn list(shell: &Shell, client: &Client, namespace: String) -> Result<u8, Problem> {
    let request = api::ListSecretsRequest { namespace };
    let found =
        client.ask("secrets cannot be listed", client.secrets().list_secrets(request)).await?;
    if shell.output().is_data() {
        let all = found.secrets.iter().map(|one| show::compute("SecretView", one)).collect();
        shell.data(&Value::Array(all))?;
        return Ok(0);
    }
    if found.secrets.is_empty() {
        shell.line("there are no secrets; `persys secret set NAME` sets one")?;
        return Ok(0);
    }
    let now = SystemTime::now();
    let row = |secret: &api::SecretView| {
        vec![
            secret.namespace.clone(),
            secret.name.clone(),
            secret.version.to_string(),
            secret.digest.clone(),
            age(secret.set_at.as_ref(), now),
            origin(secret, now),
            or_dash(&secret.used_by.join(",")),
            match (secret.readable, secret.problem.is_empty()) {
                (true, true) => "yes".to_owned(),
                (true, false) => format!("yes, the last value: {}", secret.problem),
                (false, _) => format!("NO: {}", secret.problem),
            },
        ]
    };
    let header = ["NAMESPACE", "NAME", "VERSION", "DIGEST", "SET", "BY", "USED BY", "OPENS HERE"];
    shell.print(&table(&header, found.secrets.iter().map(row).collect()))?;
    Ok(0)
}

async fn one(shell: &Shell, name: String, namespace: String) -> Result<u8, Problem> {
    let client = shell.client()?;
    let what = format!("secret {name} cannot be looked at");
    let request = api::GetSecretRequest { namespace, name };
    let found = client.ask(&what, client.secrets().get_secret(request)).await?;
    let secret = found.secret.unwrap_or_default();
    if shell.output().is_data() {
        shell.data(&show::compute("SecretView", &secret))?;
        return Ok(0);
    }
    let vault = secret.vault.as_ref().map(|_| origin(&secret, SystemTime::now()));
    let vault = vault.unwrap_or_default();
    shell.print(&pairs(&[
        ("secret", secret.name),
        ("namespace", secret.namespace),
        ("version", secret.version.to_string()),
        ("digest", secret.digest),
        ("set", clock(secret.set_at.as_ref())),
        ("by", secret.set_by),
        ("vault", vault),
        ("used by", secret.used_by.join(", ")),
        ("sealed with", secret.key),
        ("trouble", secret.problem),
    ]))?;
    Ok(0)
}

async fn delete(shell: &Shell, name: String, namespace: String) -> Result<u8, Problem> {
    let client = shell.client()?;
    let what = format!("secret {name} cannot be deleted");
    let request = api::DeleteSecretRequest { namespace, name: name.clone() };
    let answer = client.ask(&what, client.secrets().delete_secret(request)).await?;
    shell.line(&format!("secret {name} is deleted; {}", answer.note))?;
    Ok(0)
}

async fn rotate(shell: &Shell) -> Result<u8, Problem> {
    let client = shell.client()?;
    let what = "the key of secrets was not rotated";
    let request = api::RotateSecretsKeyRequest {};
    let answer = client.ask(what, client.secrets().rotate_secrets_key(request)).await?;
    let api::RotateSecretsKeyResponse { key, resealed, failed, note } = answer;
    shell.line(&format!("key {key} writes from now on; {resealed} secrets are sealed with it"))?;
    shell.line(&note)?;
    if failed.is_empty() {
        return Ok(0);
    }
    let problem = Problem::new(format!("{} secrets keep their old key", failed.len()));
    Err(failed.into_iter().fold(problem, Problem::why))
}
