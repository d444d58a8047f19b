//! `upgrade-check`: whether this release can take the place of the one that runs.
//!
//! It is typed with the *new* program, before anything is replaced: `facts` asks the cluster and reads
//! what it is shown, `judge` decides from values alone. Nothing is changed.
//!
//! The rule of versions, which `docs/packages.md` tells operators: schedulers first, then agents; each
//! step goes up by one minor version at most, never down, and no agent is newer than its scheduler.

mod facts;
mod judge;
#[cfg(test)]
mod tests;

use std::time::SystemTime;

use serde_json::json;

use self::judge::{Finding, Verdict};
use crate::args::UpgradeCheck;
use crate::problem::{ERROR, Problem};
use crate::shell::{self, Shell};
use crate::show::table::clean;

/// `upgrade-check`.
pub(crate) async fn run(shell: &Shell, wanted: UpgradeCheck) -> Result<u8, Problem> {
    let facts = facts::gather(shell, wanted).await?;
    let findings = judge::judge(&facts, SystemTime::now());
    let blocked = findings.iter().any(|finding| finding.verdict == Verdict::Blocking);
    if shell.output().is_data() {
        let told = |finding: &Finding| {
            json!({
                "subject": finding.subject,
                "verdict": finding.verdict.word(),
                "says": finding.says,
                "next": finding.next,
            })
        };
        shell.data(&json!({
            "to": facts.own.to_string(),
            "blocked": blocked,
            "findings": findings.iter().map(told).collect::<Vec<_>>(),
        }))?;
    } else {
        let color = shell.world.out_terminal && shell::color(&shell.world, &shell.global);
        shell.print(&report(&findings, &facts.own.to_string(), &shell.program, color))?;
    }
    Ok(if blocked { ERROR } else { 0 })
}

/// As people read it: what is well in a line each, what is not with what to type.
fn report(findings: &[Finding], to: &str, program: &str, color: bool) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for Finding { subject, verdict, says, next } in findings {
        let (mark, code) = match verdict {
            Verdict::Ok => ("ok  ", "32"),
            Verdict::Warn => ("warn", "33"),
            Verdict::Blocking => ("STOP", "31"),
        };
        let mark = if color { format!("\u{1b}[{code}m{mark}\u{1b}[0m") } else { mark.to_owned() };
        lines.push(format!("{mark}  {subject:width$}  {}", clean(says)));
        for step in next {
            let step = crate::problem::as_called(program, step);
            lines.push(format!("      {:width$}    {}", "", clean(&step)));
        }
    }
    let number = |wanted| findings.iter().filter(|finding| finding.verdict == wanted).count();
    let (warn, blocking) = (number(Verdict::Warn), number(Verdict::Blocking));
    lines.push(String::new());
    lines.push(match (blocking, warn) {
        (0, 0) => format!("Nothing stands in the way of {to}."),
        (0, _) => format!("{to} can be installed; look at {warn} first."),
        (_, _) => format!("Do not install {to} yet: {blocking} in the way, {warn} to look at."),
    });
    lines.join("\n") + "\n"
}
