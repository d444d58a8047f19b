//! `run --rm`: a container from its start to its end, with its output, and then no more.

use persys_proto::control::v1 as wire;
use tokio::time::{Duration, sleep};

use super::{follow, lifecycle, submit};
use crate::args::{Logs, Run};
use crate::connect::Client;
use crate::manifest::{Wanted, options};
use crate::problem::{ERROR, Problem};
use crate::shell::Shell;
use crate::wait::judge::{Goal, Verdict};
use crate::wait::{self, Ended};

/// Between two looks at a program that has ended and whose node has not said so yet.
const LOOK: Duration = Duration::from_millis(250);
/// The words before an exit code, as agents write them.
const EXITED: &str = "exited with code ";

/// Refuses what cannot be had: a terminal of the first process.
pub(super) fn no_terminal(run: &Run) -> Result<(), Problem> {
    if !run.interactive && !run.tty {
        return Ok(());
    }
    let name = run.name.clone().unwrap_or_else(|| options::name_of(&run.image));
    Err(Problem::usage("-i and -t belong to exec, not to run")
        .why("a workload may move and start again, so no terminal is bound to its first process")
        .next(format!("persys run {} --name {name}", run.image))
        .next(format!("persys exec -it {name} sh")))
}

/// Runs it, shows its output and deletes it. The exit code is that of its program.
pub(super) async fn run(shell: &Shell, client: &Client, wanted: &Wanted) -> Result<u8, Problem> {
    let id = wanted.request.workload_id.as_str();
    if Box::pin(wait::view(client, id)).await.is_some() {
        return Err(Problem::new(format!("{id} is there already"))
            .why("--rm deletes what it ran, and this is not its own")
            .next("persys run --rm --name ANOTHER_NAME ..."));
    }
    let mark = Box::pin(wait::mark(client)).await;
    submit::send(client, &wanted.request).await?;
    let ended = Box::pin(to_its_end(shell, client, id, mark)).await;
    let mark = Box::pin(wait::mark(client)).await;
    lifecycle::delete(client, id, false).await?;
    let gone = Box::pin(wait::wait(shell, client, (id, Goal::Gone), mark)).await?;
    let code = ended?;
    match gone {
        Ended::Verdict(..) => Ok(code),
        Ended::TooLong(_) | Ended::Interrupted => {
            Err(Problem::new(format!("{id} ended and is still being deleted"))
                .next(format!("persys why {id}")))
        }
    }
}

async fn to_its_end(shell: &Shell, client: &Client, id: &str, mark: String) -> Result<u8, Problem> {
    match Box::pin(wait::wait(shell, client, (id, Goal::Running), mark)).await? {
        Ended::Verdict(Verdict::Done | Verdict::Unhealthy, _) => {}
        Ended::Verdict(_, view) | Ended::TooLong(view) => {
            let why = view.and_then(|view| view.reason).map(|reason| reason.message);
            let problem = Problem::new(format!("{id} did not run, and is deleted again"));
            return Err(why.into_iter().fold(problem, Problem::why));
        }
        Ended::Interrupted => return Ok(130),
    }
    let logs = Logs { id: id.to_owned(), follow: true, tail: None, since: None };
    // What never started has no output.
    let _shown = follow::logs(shell, &logs).await;
    loop {
        let Some(view) = Box::pin(wait::view(client, id)).await else { return Ok(ERROR) };
        match view.status.as_str() {
            "Completed" => return Ok(0),
            "Failed" => return Ok(code_of(&view)),
            _ => {}
        }
        tokio::select! {
            () = shell.world.interrupted() => return Ok(130),
            () = sleep(LOOK) => {}
        }
    }
}

/// The exit code of a program that failed, as its agent told it.
fn code_of(view: &wire::WorkloadView) -> u8 {
    let message = view.reason.as_ref().map(|reason| reason.message.as_str()).unwrap_or_default();
    let told = message.split_once(EXITED).map(|(_, rest)| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u8>().unwrap_or(ERROR)
    });
    told.filter(|code| *code != 0).unwrap_or(ERROR)
}
