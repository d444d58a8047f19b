//! `token …` and the part of `ca …` that concerns a running cluster.

use std::time::SystemTime;

use persys_identity::{Pin, Token};
use persys_proto::compute::v1 as api;
use serde_json::{Value, json};

use crate::args::{CaCommand, CreateToken, TokenCommand};
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show::moment::{age, clock};
use crate::show::table::{or_dash, table};

/// `token …`.
pub(super) async fn run(shell: &Shell, command: TokenCommand) -> Result<u8, Problem> {
    let client = shell.client()?;
    match command {
        TokenCommand::Create(wanted) => create(shell, &client, wanted).await,
        TokenCommand::List => list(shell, &client).await,
        TokenCommand::Delete { id } => {
            let what = format!("token {id} cannot be deleted");
            let question = api::DeleteJoinTokenRequest { id: id.clone() };
            client.ask(&what, client.tokens().delete_join_token(question)).await?;
            shell.line(&format!("token {id} is good for nothing any more"))?;
            Ok(0)
        }
    }
}

/// The secret is made here and shown once; the scheduler gets its hash.
async fn create(shell: &Shell, client: &Client, wanted: CreateToken) -> Result<u8, Problem> {
    let what = "no token can be made";
    let random = |why: &dyn std::fmt::Display| Problem::new(what).why(why.to_string());
    let draft = Pin::parse(&"0".repeat(64)).ok_or_else(|| random(&"a bug"))?;
    let draft = Token::generate(draft).map_err(|why| random(&why))?;
    let question = api::CreateJoinTokenRequest {
        id: draft.id.clone(),
        secret_hash: draft.hash(),
        role: wanted.role,
        name: wanted.name.unwrap_or_default(),
        ttl_seconds: wanted.ttl.as_secs(),
        uses: wanted.uses,
    };
    let made = client.ask(what, client.tokens().create_join_token(question)).await?;
    let pin = Pin::parse(&made.pin).ok_or_else(|| random(&"the answer names no authority"))?;
    let token = draft.with_pin(pin);
    let line = format!("{} join {} --token {}", shell.program, made.enrol_at, *token.text());
    if shell.output().is_data() {
        let kept = made.token.unwrap_or_default();
        shell.data(&json!({
            "id": kept.id,
            "role": kept.role,
            "name": kept.name,
            "usesLeft": kept.uses_left,
            "enrolAt": made.enrol_at,
            "token": *token.text(),
            "command": line,
        }))?;
        return Ok(0);
    }
    shell.line(&line)?;
    Ok(0)
}

async fn list(shell: &Shell, client: &Client) -> Result<u8, Problem> {
    let question = api::ListJoinTokensRequest {};
    let what = "tokens cannot be listed";
    let tokens = client.ask(what, client.tokens().list_join_tokens(question)).await?.tokens;
    if shell.output().is_data() {
        let all = tokens.iter().map(|one| {
            json!({
                "id": one.id,
                "role": one.role,
                "name": one.name,
                "usesLeft": one.uses_left,
                "usedBy": one.used_by,
                "expiresAt": clock(one.expires_at.as_ref()),
            })
        });
        shell.data(&Value::Array(all.collect()))?;
        return Ok(0);
    }
    if tokens.is_empty() {
        shell.line(&format!("nobody is invited; `{}`", shell.typed("token create")))?;
        return Ok(0);
    }
    let row = |one: &api::JoinToken| {
        vec![
            one.id.clone(),
            one.role.clone(),
            or_dash(&one.name),
            one.uses_left.to_string(),
            or_dash(&one.used_by.join(",")),
            clock(one.expires_at.as_ref()),
        ]
    };
    let header = ["TOKEN", "ROLE", "FOR", "LEFT", "USED BY", "UNTIL"];
    shell.print(&table(&header, tokens.iter().map(row).collect()))?;
    Ok(0)
}

/// `ca revoke`, `ca reinstate`, `ca revoked`.
pub(super) async fn ca(shell: &Shell, command: CaCommand) -> Result<u8, Problem> {
    let client = shell.client()?;
    match command {
        CaCommand::Revoke { subject, reason } => {
            let what = format!("{subject} cannot be revoked");
            let question = api::RevokeRequest { subject: subject.clone(), reason };
            client.ask(&what, client.tokens().revoke(question)).await?;
            shell.line(&format!("{subject} is believed no longer"))?;
        }
        CaCommand::Reinstate { subject } => {
            let what = format!("{subject} cannot be reinstated");
            let question = api::ReinstateRequest { subject: subject.clone() };
            client.ask(&what, client.tokens().reinstate(question)).await?;
            shell.line(&format!("{subject} is believed again"))?;
        }
        CaCommand::Revoked => return revoked(shell, &client).await,
    }
    Ok(0)
}

async fn revoked(shell: &Shell, client: &Client) -> Result<u8, Problem> {
    let question = api::ListRevocationsRequest {};
    let what = "revocations cannot be listed";
    let found = client.ask(what, client.tokens().list_revocations(question)).await?.revocations;
    if shell.output().is_data() {
        let all = found.iter().map(|one| {
            let since = clock(one.since.as_ref());
            json!({ "subject": one.subject, "since": since, "reason": one.reason })
        });
        shell.data(&Value::Array(all.collect()))?;
        return Ok(0);
    }
    if found.is_empty() {
        shell.line("nobody is revoked")?;
        return Ok(0);
    }
    let now = SystemTime::now();
    let row = |one: &api::Revocation| {
        vec![one.subject.clone(), age(one.since.as_ref(), now), or_dash(&one.reason)]
    };
    shell.print(&table(&["WHO", "AGE", "WHY"], found.iter().map(row).collect()))?;
    Ok(0)
}
