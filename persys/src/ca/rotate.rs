//! `persys ca rotate`: one step of replacing the root, when it is safe.

use std::path::Path;
use std::time::{Duration, SystemTime};

use persys_identity::Authority;
use persys_identity::authority::Stage;
use persys_identity::issued::Ledger;

use super::Error;

/// How long everybody is given to hear of the next root: members ask every half a minute.
const HEARD: Duration = Duration::from_mins(2);

/// Takes the next step.
pub(super) fn step(folder: &Path, force: bool, now: SystemTime) -> Result<(), Error> {
    let authority = Authority::open(folder, now)?;
    match authority.stage() {
        Stage::Settled => {
            authority.prepare(now)?;
            println!("1 of 3: the next root is made, and trusted by whoever asks from now on");
            println!("next, in {} s or later: persys ca rotate", HEARD.as_secs());
        }
        Stage::Prepared => {
            if let Some(wait) = too_early(folder, now).filter(|_| !force) {
                let wait = wait.as_secs().saturating_add(1);
                return Err(Error::Usage(format!(
                    "members may not have heard of the next root yet: wait {wait} s, or --force"
                )));
            }
            authority.switch(now)?;
            println!("2 of 3: the next root issues; the former is still trusted");
            println!("next, when everybody has a certificate of it: persys ca rotate");
        }
        Stage::Switched => {
            let left = left_behind(&authority, now)?;
            if !left.is_empty() && !force {
                return Err(Error::Usage(format!(
                    "{} still have a certificate of the former root: {}; wait until they have renewed, or --force",
                    left.len(),
                    left.join(", ")
                )));
            }
            authority.finish(now)?;
            println!("3 of 3: the former root is trusted no more");
        }
    }
    Ok(())
}

/// How long to wait until the next root is old enough.
fn too_early(folder: &Path, now: SystemTime) -> Option<Duration> {
    let made = std::fs::metadata(folder.join("next.pem")).ok()?.modified().ok()?;
    HEARD.checked_sub(now.duration_since(made).unwrap_or_default())
}

/// Whose present certificate is one of a former root.
fn left_behind(authority: &Authority, now: SystemTime) -> Result<Vec<String>, Error> {
    let ours: String = authority.pin()?.to_string().chars().take(16).collect();
    let living = Ledger::of(authority.folder()).living(now)?;
    let left = living.into_values().filter(|entry| entry.root != ours);
    Ok(left.map(|entry| entry.identity).collect())
}
