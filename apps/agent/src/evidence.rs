//! What was left of a bad end, as people read it: code, signal, want of memory, what the runtime
//! said, and the last lines that were printed.
//!
//! It is short: it goes with a report to the scheduler, which keeps it when nothing else is left of
//! the workload.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use persys_model::failure::{clip, shorten};
use persys_model::id::WorkloadId;
use persys_model::token::Epoch;
use persys_node::input::Input;
use persys_runtime::Evidence;
use persys_runtime::inside::End;
use tokio::time::timeout;

/// Longest text: what the scheduler says before it fits into one message with it.
const TEXT_BYTES: usize = 940;
/// Longest remark of the runtime.
const REMARK_BYTES: usize = 300;
/// How long all ends of one observation may take together; the core waits for them.
const PATIENCE: Duration = Duration::from_millis(250);
/// How many are looked at at a time.
const AT_A_TIME: usize = 8;

/// What was left of each end, as far as it can be found out in time.
pub(crate) async fn gather(
    evidence: &dyn Evidence,
    ends: Vec<(WorkloadId, Epoch, i32)>,
) -> Vec<Input> {
    let mut found = Vec::new();
    let looking = async {
        let mut looks = stream::iter(ends)
            .map(|(workload, epoch, code)| async move {
                let end = evidence.evidence(&workload).await.ok().flatten()?;
                // Another end than the one that was seen tells nothing about that one.
                let text = (end.code == code).then(|| text(&end))?;
                Some(Input::Ended { workload, epoch, code, text: text.into() })
            })
            .buffer_unordered(AT_A_TIME);
        while let Some(look) = looks.next().await {
            found.extend(look);
        }
    };
    // What did not come in time is left out; the code alone is still told.
    if timeout(PATIENCE, looking).await.is_err() {
        tracing::debug!("the runtime tells little of what ended");
    }
    found
}

/// An end in words: one line that says what happened, then the last lines it printed.
pub(crate) fn text(end: &End) -> String {
    let mut text = match &end.service {
        Some(service) => format!("service {service} exited with code {}", end.code),
        None => format!("exited with code {}", end.code),
    };
    if let Some(name) = end.signal.and_then(signal_name) {
        text = format!("{text} ({name})");
    }
    if end.out_of_memory {
        text.push_str(&want_of_memory(end));
    }
    if let Some(error) = &end.runtime_error {
        text = format!("{text}: {}", shorten(&clean(error), REMARK_BYTES));
    }
    let lines = last_lines(end, TEXT_BYTES.saturating_sub(text.len() + HEADING.len()));
    if !lines.is_empty() {
        text.push_str(HEADING);
        text.push_str(&lines);
    }
    text
}

/// How much memory it could have, who said so, and what raises it. Nobody but the user sets a limit.
fn want_of_memory(end: &End) -> String {
    let Some(limit) = end.memory_limit else {
        return ": out of memory, and it has no limit: its node had no more to give; \
                resources.memory_mb reserves what it needs"
            .to_owned();
    };
    let limit = mebibytes(limit);
    let set = match end.service {
        Some(_) => {
            "which the service sets itself: raise mem_limit or deploy.resources.limits.memory in its \
             Compose file"
        }
        None => "which its spec sets: raise it with --memory, or limits.memory_bytes in a file",
    };
    format!(": out of memory, it needed more than its limit of {limit}, {set}")
}

fn mebibytes(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    if bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{bytes} bytes")
    }
}

const HEADING: &str = "\nlast lines:";
const CUT: &str = "\n…";

/// As many of the last lines as fit, each on a line of its own.
fn last_lines(end: &End, room: usize) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut left = room.saturating_sub(CUT.len());
    let lines = end.last_lines.iter().map(|line| clean(line));
    let all: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    for line in all.iter().rev() {
        let cost = line.len() + 1;
        if cost > left {
            break;
        }
        left -= cost;
        kept.push(format!("\n{line}"));
    }
    if kept.is_empty()
        && let Some(line) = all.last()
    {
        kept.push(format!("\n{}", shorten(line, left)));
    }
    if kept.len() < all.len() {
        kept.push(CUT.to_owned());
    }
    kept.reverse();
    kept.concat()
}

/// One line without what would disturb a terminal.
fn clean(line: &str) -> String {
    let line: String =
        line.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clip(&line, End::LINE_BYTES).to_owned()
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use persys_model::failure::Failure;
    use persys_runtime::Error;

    use super::*;

    #[test]
    fn an_end_is_told_as_far_as_it_is_known() {
        let plain = End { code: 3, ..End::default() };
        assert_eq!(text(&plain), "exited with code 3");
        let killed = End {
            service: Some("web".to_owned()),
            code: 137,
            signal: Some(9),
            out_of_memory: true,
            memory_limit: Some(32 << 20),
            runtime_error: Some("init died\nearly".to_owned()),
            last_lines: vec!["loading".to_owned(), String::new(), "\u{1b}[31mno memory".to_owned()],
        };
        assert_eq!(
            text(&killed),
            "service web exited with code 137 (SIGKILL): out of memory, it needed more than its limit of \
             32 MiB, which the service sets itself: raise mem_limit or deploy.resources.limits.memory in \
             its Compose file: init died early\nlast lines:\nloading\n [31mno memory"
        );
        let alone = End { service: None, runtime_error: None, last_lines: Vec::new(), ..killed };
        assert_eq!(
            text(&alone),
            "exited with code 137 (SIGKILL): out of memory, it needed more than its limit of 32 MiB, \
             which its spec sets: raise it with --memory, or limits.memory_bytes in a file"
        );
        let free = End { memory_limit: None, ..alone };
        assert!(text(&free).contains("it has no limit: its node had no more to give"));
        let odd = End { code: 180, signal: Some(52), ..End::default() };
        assert_eq!(text(&odd), "exited with code 180");
    }

    #[test]
    fn the_last_lines_are_kept_and_the_first_are_cut() {
        let last_lines: Vec<_> = (0..20).map(|n| format!("{n} {}", "é".repeat(100))).collect();
        let end = End { code: 1, last_lines: last_lines.clone(), ..End::default() };
        let told = text(&end);
        assert!(told.len() <= TEXT_BYTES && TEXT_BYTES < Failure::MESSAGE_LIMIT, "{}", told.len());
        assert!(told.starts_with("exited with code 1\nlast lines:\n…\n"), "{told}");
        assert!(told.ends_with(last_lines.last().unwrap()));
        let remark = End { runtime_error: Some("x".repeat(5_000)), ..end };
        assert!(text(&remark).len() <= TEXT_BYTES);
    }

    struct Scripted(Mutex<u32>);

    #[async_trait::async_trait]
    impl Evidence for Scripted {
        async fn evidence(&self, workload: &WorkloadId) -> Result<Option<End>, Error> {
            *self.0.lock().unwrap() += 1;
            match workload.as_str() {
                "hangs" => std::future::pending().await,
                "gone" => Ok(None),
                _ => Ok(Some(End { code: 2, ..End::default() })),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_holds_up_nobody_for_long() {
        let scripted = Scripted(Mutex::new(0));
        let end = |id: &str, code| (WorkloadId::new(id).unwrap(), Epoch(7), code);
        let ends = vec![end("hangs", 2), end("gone", 2), end("other", 9), end("web", 2)];
        let found = gather(&scripted, ends).await;
        let wanted = Input::Ended {
            workload: WorkloadId::new("web").unwrap(),
            epoch: Epoch(7),
            code: 2,
            text: "exited with code 2".into(),
        };
        assert_eq!(found, [wanted]);
        assert_eq!(*scripted.0.lock().unwrap(), 4);
    }
}
