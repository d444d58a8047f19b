//! Compose files other people wrote, as they are, on real Docker: typed as a person would, through a
//! scheduler and an agent, with stand-ins for images that nobody can pull or build here.
//!
//! Each lane has a Docker of its own, in a network of its own: most of the files want port 80.

#[cfg(test)]
mod lane;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use crate::lane::Lane;

    /// Every kind of thing that stands beside a file or asks for something of its node.
    const HANDFUL: [&str; 6] = [
        "nginx-golang",
        "nginx-golang-postgres",
        "pihole-cloudflared-DoH",
        "plex",
        "portainer",
        "wasmedge-mysql-nginx",
    ];
    /// Those that a policy refuses until an operator allows what they ask for.
    const WITHHELD: [&str; 2] = ["portainer", "traefik-golang"];
    /// How many run at a time.
    const LANES: usize = 3;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/cli/tests/corpus")
    }

    fn projects() -> Vec<String> {
        let entries = std::fs::read_dir(folder()).expect("the corpus").flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let mut names: Vec<_> =
            folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Runs projects in lanes; what is said of each.
    async fn run(projects: Vec<String>, lanes: usize) -> BTreeMap<String, String> {
        let begun = Instant::now();
        let waiting = Arc::new(Mutex::new(projects));
        let mut running = Vec::new();
        for _ in 0..lanes {
            let waiting = Arc::clone(&waiting);
            running.push(tokio::spawn(async move {
                let mut lane = Lane::start().await;
                let mut said = BTreeMap::new();
                loop {
                    let Some(name) = waiting.lock().expect("the list").pop() else { return said };
                    let withheld = WITHHELD.contains(&name.as_str());
                    let outcome = lane.project(&folder().join(&name), withheld).await;
                    said.insert(name, outcome);
                }
            }));
        }
        let mut all = BTreeMap::new();
        for lane in running {
            all.extend(lane.await.expect("a lane"));
        }
        for (name, outcome) in &all {
            println!("{name}: {outcome}");
        }
        println!("{} projects in {:?}", all.len(), begun.elapsed());
        all
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_handful_really_runs() {
        let said = run(HANDFUL.map(str::to_owned).to_vec(), 2).await;
        assert_eq!(said.len(), HANDFUL.len());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_project_really_runs() {
        let projects = projects();
        assert_eq!(projects.len(), 39, "the corpus is missing");
        let said = run(projects, LANES).await;
        let by_itself: BTreeSet<_> =
            said.iter().filter(|(_, outcome)| outcome.starts_with("runs")).collect();
        println!("{} of {} run as they are", by_itself.len(), said.len());
        assert!(by_itself.len() >= 37, "{said:?}");
    }
}
