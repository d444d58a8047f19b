//! The same process, without a terminal.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::folder::{Folder, Note};
use super::options::Options;
use super::{Error, serve, system};

/// How long it may take until it serves.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How much of a log is shown.
const TAIL_LINES: usize = 20;

/// Starts it, waits until it serves, and lets it go on.
pub(super) async fn run(options: &Options) -> Result<(), Error> {
    let folder = Folder::open_or_make(&options.folder())?;
    if folder.is_taken() {
        if let Some(note) = folder.note() {
            println!("it runs already, as process {}", note.pid);
            serve::tell(&note, &folder);
            return Ok(());
        }
        return Err(Error::Running { pid: 0, path: folder.path });
    }
    folder.take_note_away();
    let log = folder.path.join("dev.log");
    let mut child = start(options, &folder, &log)?;
    let note = until_served(&folder, &mut child, &log).await?;
    serve::tell(&note, &folder);
    println!("it goes on in the background, as process {}; log: {}", note.pid, log.display());
    println!("`{}` ends it and leaves nothing behind", options.down_command());
    Ok(())
}

fn start(options: &Options, folder: &Folder, log: &Path) -> Result<Child, Error> {
    let own = std::env::current_exe().map_err(system("this program"))?;
    let out = File::create(log).map_err(system(log.display().to_string()))?;
    let err = out.try_clone().map_err(system(log.display().to_string()))?;
    Command::new(own)
        .args(["dev", "--runtime", options.runtime.word()])
        .args(["--listen", &options.listen.to_string()])
        .args(["--port", &options.port.to_string(), "--http", &options.http.to_string()])
        .args(["--agent-port", &options.agent_port.to_string()])
        .args(["--dns-port", &options.dns_port.to_string()])
        .args(["--enrol-port", &options.enrol_port.to_string()])
        .args(["--gateway-port", &options.gateway_port.to_string()])
        .arg("--state")
        .arg(&folder.path)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        // Ctrl-C in this terminal is not meant for it.
        .process_group(0)
        .spawn()
        .map_err(system("a process in the background"))
}

async fn until_served(folder: &Folder, child: &mut Child, log: &Path) -> Result<Note, Error> {
    let begun = Instant::now();
    loop {
        if let Some(note) = folder.note()
            && note.pid == child.id()
        {
            return Ok(note);
        }
        let ended = child.try_wait().map_err(system("the process in the background"))?;
        if ended.is_some() || begun.elapsed() > PATIENCE {
            // One that hangs must not stay.
            drop(child.kill());
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
            return Err(Error::Ended { log: log.to_path_buf(), tail: tail.join("\n") });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
