//! `log level`: how much a log tells.

use persys_proto::compute::v1 as api;
use serde_json::json;

use crate::args::{LogCommand, LogLevel};
use crate::problem::Problem;
use crate::shell::Shell;

/// `log …`.
pub(super) async fn run(shell: &Shell, command: LogCommand) -> Result<u8, Problem> {
    let LogCommand::Level(wanted) = command;
    level(shell, wanted).await
}

async fn level(shell: &Shell, wanted: LogLevel) -> Result<u8, Problem> {
    let client = shell.client()?;
    let question = api::LogLevelsRequest {
        node_id: wanted.node.unwrap_or_default(),
        directives: wanted.directives.unwrap_or_default(),
        seconds: wanted.lasts.as_secs().max(1),
        reset: wanted.reset,
    };
    let what = "the levels of the log are as they were";
    let answer = client.ask(what, client.logging().log_levels(question)).await;
    let answer = answer.map_err(|problem| problem.next("persys log level --help"))?;
    if shell.output().is_data() {
        let changes = answer
            .changes
            .iter()
            .map(|one| json!({"directive": one.directive, "secondsLeft": one.seconds_left}));
        let changes: Vec<_> = changes.collect();
        shell.data(&json!({"settings": answer.settings, "changes": changes}))?;
        return Ok(0);
    }
    shell.line(&format!("settings  {}", answer.settings))?;
    for api::LogLevelChange { directive, seconds_left } in &answer.changes {
        let left = humantime::format_duration(std::time::Duration::from_secs(*seconds_left));
        shell.line(&format!("for {left}  {directive}"))?;
    }
    Ok(0)
}
