//! `namespace …`, `access …` and `whoami`: who may do what.

use persys_proto::compute::v1 as compute;
use persys_proto::convert::time::wall;
use serde_json::Value;

use crate::args::{
    AccessCommand, Bind, NamespaceAllows, NamespaceCommand, Switch, UserTokenCommand, Where,
};
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show;
use crate::show::table::table;

/// `namespace …`.
pub(super) async fn namespace(shell: &Shell, command: NamespaceCommand) -> Result<u8, Problem> {
    match command {
        NamespaceCommand::List => list_namespaces(shell).await,
        NamespaceCommand::Create(allows) => put_namespace(shell, allows, true).await,
        NamespaceCommand::Set(allows) => put_namespace(shell, allows, false).await,
        NamespaceCommand::Shadow { name, to } => put_shadow(shell, name, to == Switch::On).await,
        NamespaceCommand::Delete { name } => {
            let client = shell.client()?;
            let request = compute::DeleteNamespaceRequest { name: name.clone() };
            let what = format!("the namespace {name} cannot be deleted");
            client.ask(&what, client.access().delete_namespace(request)).await?;
            shell.line(&format!("deleted the namespace {name}"))?;
            Ok(0)
        }
    }
}

async fn list_namespaces(shell: &Shell) -> Result<u8, Problem> {
    let client = shell.client()?;
    let request = compute::ListNamespacesRequest {};
    let what = "namespaces cannot be listed";
    let found = client.ask(what, client.access().list_namespaces(request)).await?.namespaces;
    if shell.output().is_data() {
        let all = found.iter().map(|one| show::compute("AccessNamespace", one)).collect();
        shell.data(&Value::Array(all))?;
        return Ok(0);
    }
    let row = |one: &compute::AccessNamespace| {
        let shadow = if one.shadow() { "yes" } else { "no" };
        vec![one.name.clone(), shadow.to_owned(), allowed(one)]
    };
    shell.print(&table(&["NAMESPACE", "SHADOW", "ALLOWS"], found.iter().map(row).collect()))?;
    Ok(0)
}

fn allowed(namespace: &compute::AccessNamespace) -> String {
    if namespace.open {
        return "whatever can be given (it has no record)".to_owned();
    }
    let flags = [
        (namespace.privileged, "privileged"),
        (namespace.host_network, "host-network"),
        (namespace.devices, "devices"),
    ];
    let mut words: Vec<_> =
        flags.iter().filter(|(on, _)| *on).map(|(_, word)| (*word).to_owned()).collect();
    words.extend(namespace.host_paths.iter().cloned());
    words.extend(namespace.vault_paths.iter().map(|path| format!("vault:{path}")));
    if words.is_empty() { "nothing out of the ordinary".to_owned() } else { words.join(", ") }
}

async fn put_namespace(
    shell: &Shell,
    allows: NamespaceAllows,
    only_new: bool,
) -> Result<u8, Problem> {
    let client = shell.client()?;
    let name = allows.name.clone();
    let namespace = Some(compute::AccessNamespace {
        name: allows.name,
        privileged: allows.allow_privileged,
        host_network: allows.allow_host_network,
        devices: allows.allow_devices,
        host_paths: allows.allow_host_paths,
        open: false,
        vault_paths: allows.allow_vault_paths,
        shadow: allows.shadow,
    });
    let verb = if only_new { "made" } else { "set" };
    let what = format!("the namespace {name} cannot be {verb}");
    let request = compute::PutNamespaceRequest { namespace, only_new, only_shadow: false };
    client.ask(&what, client.access().put_namespace(request)).await?;
    shell.line(&format!("{verb} the namespace {name}"))?;
    Ok(0)
}

async fn put_shadow(shell: &Shell, name: String, on: bool) -> Result<u8, Problem> {
    let client = shell.client()?;
    let namespace = compute::AccessNamespace {
        name: name.clone(),
        shadow: Some(on),
        ..compute::AccessNamespace::default()
    };
    let request = compute::PutNamespaceRequest {
        namespace: Some(namespace),
        only_shadow: true,
        ..compute::PutNamespaceRequest::default()
    };
    let what = format!("shadow of the namespace {name} cannot be changed");
    client.ask(&what, client.access().put_namespace(request)).await?;
    shell.line(&if on {
        format!("the namespace {name} is in shadow: its workloads have no ports and no names")
    } else {
        format!("the namespace {name} is out of shadow: its workloads get their ports and names")
    })?;
    Ok(0)
}

/// `access …`.
pub(super) async fn access(shell: &Shell, command: AccessCommand) -> Result<u8, Problem> {
    match command {
        AccessCommand::Bind(binding) => bind(shell, binding).await,
        AccessCommand::Unbind { name } => {
            let client = shell.client()?;
            let request = compute::DeleteBindingRequest { name: name.clone() };
            let what = format!("the binding {name} cannot be deleted");
            client.ask(&what, client.access().delete_binding(request)).await?;
            shell.line(&format!("deleted the binding {name}"))?;
            Ok(0)
        }
        AccessCommand::List => list_bindings(shell).await,
        AccessCommand::Token(command) => token(shell, command).await,
    }
}

async fn bind(shell: &Shell, binding: Bind) -> Result<u8, Problem> {
    let client = shell.client()?;
    let binding = compute::RoleBinding {
        name: binding.name,
        user: binding.user.unwrap_or_default(),
        group: binding.group.unwrap_or_default(),
        role: binding.role,
        scope: Some(scope(binding.at)),
    };
    let request = compute::PutBindingRequest { binding: Some(binding) };
    let what = "the role cannot be given";
    let made = client.ask(what, client.access().put_binding(request)).await?;
    shell.line(&format!("made the binding {}", made.name))?;
    Ok(0)
}

fn scope(at: Where) -> compute::RoleScope {
    compute::RoleScope { cluster: at.cluster, namespaces: at.namespaces }
}

fn place(scope: Option<&compute::RoleScope>) -> String {
    match scope {
        Some(scope) if scope.cluster => "whole cluster".to_owned(),
        Some(scope) => scope.namespaces.join(", "),
        None => "nowhere".to_owned(),
    }
}

async fn list_bindings(shell: &Shell) -> Result<u8, Problem> {
    let client = shell.client()?;
    let what = "bindings cannot be listed";
    let request = compute::ListBindingsRequest {};
    let found = client.ask(what, client.access().list_bindings(request)).await?.bindings;
    if shell.output().is_data() {
        let all = found.iter().map(|one| show::compute("RoleBinding", one)).collect();
        shell.data(&Value::Array(all))?;
        return Ok(0);
    }
    let row = |one: &compute::RoleBinding| {
        let who = match one.group.as_str() {
            "" => format!("user {}", one.user),
            group => format!("group {group}"),
        };
        vec![one.name.clone(), who, one.role.clone(), place(one.scope.as_ref())]
    };
    shell.print(&table(&["BINDING", "WHO", "ROLE", "WHERE"], found.iter().map(row).collect()))?;
    Ok(0)
}

async fn token(shell: &Shell, command: UserTokenCommand) -> Result<u8, Problem> {
    let client = shell.client()?;
    match command {
        UserTokenCommand::Create { user, role, at, ttl } => {
            let scope = Some(scope(at));
            let ttl_seconds = ttl.as_secs();
            let request = compute::CreateUserTokenRequest { user, role, scope, ttl_seconds };
            let what = "no token can be made";
            let made = client.ask(what, client.access().create_user_token(request)).await?;
            if shell.output().is_data() {
                shell.data(&show::compute("CreateUserTokenResponse", &made))?;
            } else {
                shell.line(&made.token)?;
                shell.world.note("it is shown this once; use it with --token or PERSYS_TOKEN");
            }
        }
        UserTokenCommand::List => {
            let what = "tokens cannot be listed";
            let request = compute::ListUserTokensRequest {};
            let found = client.ask(what, client.access().list_user_tokens(request)).await?.tokens;
            if shell.output().is_data() {
                let all = found.iter().map(|one| show::compute("UserTokenView", one)).collect();
                shell.data(&Value::Array(all))?;
                return Ok(0);
            }
            let row = |one: &compute::UserTokenView| {
                let until = one.expires_at.as_ref().map(wall).unwrap_or_default();
                let until = std::time::UNIX_EPOCH + std::time::Duration::from_millis(until.0);
                let until = humantime::format_rfc3339_seconds(until).to_string();
                let at = place(one.scope.as_ref());
                vec![one.id.clone(), one.user.clone(), one.role.clone(), at, until]
            };
            let header = ["TOKEN", "USER", "ROLE", "WHERE", "EXPIRES"];
            shell.print(&table(&header, found.iter().map(row).collect()))?;
        }
        UserTokenCommand::Revoke { id } => {
            let request = compute::RevokeUserTokenRequest { id: id.clone() };
            let what = format!("the token {id} cannot be revoked");
            client.ask(&what, client.access().revoke_user_token(request)).await?;
            shell.line(&format!("revoked the token {id}"))?;
        }
    }
    Ok(0)
}

/// `whoami`.
pub(super) async fn whoami(shell: &Shell) -> Result<u8, Problem> {
    let client = shell.client()?;
    let what = "who you are cannot be told";
    let me = client.ask(what, client.access().who_am_i(compute::WhoAmIRequest {})).await?;
    if shell.output().is_data() {
        shell.data(&show::compute("WhoAmIResponse", &me))?;
        return Ok(0);
    }
    shell.line(&me.who)?;
    for held in &me.roles {
        shell.line(&format!("  {} in {}", held.role, place(held.scope.as_ref())))?;
    }
    Ok(0)
}
