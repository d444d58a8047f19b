//! Running the programs that make file systems and mount them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use persys_model::id::VolumeName;
use persys_process::{Child, Ended, run};

use crate::error::Error;

/// How long a program may take. A server that is away holds up its own volumes only.
const DEADLINE: Duration = Duration::from_mins(1);
/// Bytes kept of what a program prints.
const OUTPUT: usize = 256 * 1024;
/// Characters of a complaint that are passed on.
const SAID: usize = 300;

/// Runs `program` for the volume `name`; any end of its own is fine.
pub(crate) async fn ask(
    name: &VolumeName,
    doing: &'static str,
    program: &Path,
    args: &[&str],
) -> Result<Ended, Error> {
    let child = Child {
        program: program.to_owned(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        env: BTreeMap::from([
            ("LC_ALL".to_owned(), "C".to_owned()),
            ("PATH".to_owned(), "/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
        ]),
        folder: "/".into(),
        deadline: DEADLINE,
        output_limit: OUTPUT,
    };
    run(&child).await.map_err(|error| Error::Unknown {
        name: name.clone(),
        doing,
        said: error.to_string(),
    })
}

/// Does `work` on files that may be on another host, where it holds up nobody, for a bounded time.
pub(crate) async fn aside<T: Send + 'static>(
    name: &VolumeName,
    doing: &'static str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let unknown = |said: String| Error::Unknown { name: name.clone(), doing, said };
    match tokio::time::timeout(DEADLINE, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => Err(unknown(error.to_string())),
        Err(late) => Err(unknown(late.to_string())),
    }
}

/// Runs `program` to its good end; what it printed.
pub(crate) async fn call(
    name: &VolumeName,
    doing: &'static str,
    program: &Path,
    args: &[&str],
) -> Result<String, Error> {
    let ended = ask(name, doing, program, args).await?;
    if ended.code == Some(0) {
        return Ok(ended.stdout.text());
    }
    Err(failed(name, doing, &ended))
}

/// What a program said that did not come to a good end.
pub(crate) fn failed(name: &VolumeName, doing: &'static str, ended: &Ended) -> Error {
    let text = ended.stderr.text();
    let words: Vec<_> = text.split_whitespace().collect();
    let said: String = words.join(" ").chars().filter(|c| !c.is_control()).take(SAID).collect();
    let said = if said.is_empty() { format!("it ended with {:?}", ended.code) } else { said };
    Error::Tool { name: name.clone(), doing, said }
}
