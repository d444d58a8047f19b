//! `snapshot save|inspect|restore` and `store migrate`.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use persys_model::time::WallMillis;
use persys_proto::compute::v1 as compute;
use persys_store::archive::{self, Archive, NewFile};
use persys_store::{Error, Pairs, Store};
use serde_json::json;
use tokio::time::timeout;

use crate::args::{At, EtcdOptions, SnapshotCommand, StoreCommand};
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show::moment::now_text;
use crate::show::table::{pairs, table};
use crate::stores::{self, For, Place, Way};

/// How long the next piece of a copy may take.
const NEXT: Duration = Duration::from_mins(1);
/// Unreadable records that are listed for people.
const LISTED: usize = 50;

/// `snapshot …`.
pub(super) async fn run(shell: &Shell, command: SnapshotCommand) -> Result<u8, Problem> {
    match command {
        SnapshotCommand::Save { file, at, etcd } => {
            save(shell, &file, &at, &way(shell, etcd)).await
        }
        SnapshotCommand::Inspect { file } => inspect(shell, &file),
        SnapshotCommand::Restore { file, at, etcd } => {
            let Some(place) = at.place() else {
                return Err(Problem::usage("nothing says where to restore it")
                    .next("persys snapshot restore FILE --state-dir DIR")
                    .next("persys snapshot restore FILE --etcd HOST:PORT"));
            };
            restore(shell, &file, &place, &way(shell, etcd)).await
        }
    }
}

/// `store …`.
pub(super) async fn store(shell: &Shell, command: StoreCommand) -> Result<u8, Problem> {
    let StoreCommand::Migrate { from, to, etcd } = command;
    migrate(shell, (&from, &to), &way(shell, etcd)).await
}

fn way(shell: &Shell, options: EtcdOptions) -> Way {
    Way::new(options, shell.world.var("ETCD_PASSWORD"))
}

/// Reads a file, or says what is wrong with it.
pub(super) fn read(file: &Path) -> Result<Archive, Problem> {
    archive::open(file).map_err(|why| {
        Problem::new(format!("{} is not a snapshot that can be used", file.display()))
            .why(why.to_string())
            .next("persys snapshot save FILE")
    })
}

async fn save(shell: &Shell, file: &Path, at: &At, way: &Way) -> Result<u8, Problem> {
    let what = format!("{} cannot be saved", file.display());
    way.check(&at.place().iter().collect::<Vec<_>>())?;
    let unwritable = |fault: std::io::Error| Problem::new(what.clone()).why(fault.to_string());
    let mut new = NewFile::create(file).map_err(unwritable)?;
    if let Some(place) = at.place() {
        let store = stores::open(&place, For::Reading, way)?;
        let dumped = store.dump().await;
        store.close().await;
        let pairs = dumped.map_err(|error| Problem::new(what.clone()).why(error.to_string()))?;
        if pairs.is_empty() {
            return Err(Problem::new(what).why(format!("the store in {place} is empty")));
        }
        archive::write(&Archive::new(pairs, now()), &mut new).map_err(unwritable)?;
    } else {
        receive(shell, &what, &mut new).await?;
    }
    let archive = new.check().map_err(|why| {
        Problem::new(what.clone()).why(format!("what was written is not whole: {why}"))
    })?;
    new.finish().map_err(unwritable)?;
    if shell.output().is_data() {
        shell.data(&told(&archive))?;
        return Ok(0);
    }
    shell.line(&format!(
        "{} records of {} are saved to {}",
        archive.pairs.len(),
        named(&archive),
        file.display()
    ))?;
    next(shell, &[format!("persys snapshot inspect {}", file.display())])?;
    Ok(0)
}

async fn receive(shell: &Shell, what: &str, new: &mut NewFile) -> Result<(), Problem> {
    let client = shell.client()?;
    let request = compute::SnapshotRequest {};
    let mut pieces = client.ask(what, client.compute().snapshot(request)).await?;
    loop {
        let late = |_| Problem::new(what).why("nothing came for too long");
        let piece = timeout(NEXT, pieces.message()).await.map_err(late)?;
        match piece.map_err(|status| client.refused(what, &status))? {
            Some(piece) => new
                .write_all(&piece.data)
                .map_err(|fault| Problem::new(what).why(fault.to_string()))?,
            None => return Ok(()),
        }
    }
}

fn inspect(shell: &Shell, file: &Path) -> Result<u8, Problem> {
    let archive = read(file)?;
    if shell.output().is_data() {
        shell.data(&told(&archive))?;
        return Ok(0);
    }
    let contents = archive.contents();
    let head = contents.loaded.snapshot.head.as_ref();
    let header = &archive.header;
    shell.print(&pairs(&[
        ("file", file.display().to_string()),
        (
            "cluster",
            header.cluster.as_deref().unwrap_or("unknown: no head that can be read").into(),
        ),
        ("taken", moment(header.taken)),
        ("incarnation", header.incarnation.to_string()),
        ("unit", header.seq.to_string()),
        ("rebuilding", if head.is_some_and(|head| head.rebuilding) { "yes" } else { "" }.into()),
        ("checksum", "matches".to_owned()),
    ]))?;
    let rows = header.records.iter().map(|(kind, count)| vec![kind.clone(), count.to_string()]);
    shell.print(&format!("\n{}", table(&["RECORDS", "COUNT"], rows.collect())))?;
    let bad = &contents.loaded.quarantined;
    if !bad.is_empty() {
        let rows = bad.iter().take(LISTED).map(|bad| vec![bad.key.clone(), bad.why.clone()]);
        shell.print(&format!("\n{}", table(&["CANNOT BE READ", "WHY"], rows.collect())))?;
        if bad.len() > LISTED {
            shell.line(&format!("and {} more; -o json lists all", bad.len() - LISTED))?;
        }
    }
    Ok(0)
}

/// What is in a copy, as a program reads it.
fn told(archive: &Archive) -> serde_json::Value {
    let contents = archive.contents();
    let snapshot = &contents.loaded.snapshot;
    let unreadable = contents.loaded.quarantined.iter();
    let header = &archive.header;
    json!({
        "cluster": header.cluster.as_deref(),
        "taken": moment(header.taken),
        "incarnation": header.incarnation,
        "seq": header.seq.0,
        "rebuilding": snapshot.head.as_ref().is_some_and(|head| head.rebuilding),
        "records": header.records,
        "nodes": snapshot.nodes.iter().map(|node| node.facts.id.to_string()).collect::<Vec<_>>(),
        "workloads": snapshot.workloads.iter().map(|one| one.id.to_string()).collect::<Vec<_>>(),
        "unreadable":
            unreadable.map(|bad| json!({ "key": bad.key, "why": bad.why })).collect::<Vec<_>>(),
    })
}

async fn restore(shell: &Shell, file: &Path, place: &Place, way: &Way) -> Result<u8, Problem> {
    way.check(&[place])?;
    let archive = read(file)?;
    let what = format!("{} cannot be restored", file.display());
    let records = archive::for_restoring(archive.pairs.clone())
        .map_err(|error| Problem::new(what.clone()).why(error.to_string()))?;
    let store = stores::open(place, For::Filling, way)?;
    let filled = fill(&*store, place, &what, records).await;
    store.close().await;
    filled?;
    if shell.output().is_data() {
        shell.data(&told(&archive))?;
        return Ok(0);
    }
    let many = archive.pairs.len();
    shell.line(&format!("{many} records of {} are restored into {place}", named(&archive)))?;
    shell.line(
        "A scheduler starts with it in recovery: nothing is started or stopped until it is told how\n\
         to go on, since nobody can know what happened after the snapshot was taken.",
    )?;
    tell_password(shell, way)?;
    next(
        shell,
        &[
            place.scheduler(way),
            "persys status                           (lists the agents it has heard)".to_owned(),
            "persys recover --from-agents --dry-run  (tells what would be done)".to_owned(),
            "persys recover --from-agents --yes      (does it)".to_owned(),
        ],
    )?;
    Ok(0)
}

async fn migrate(shell: &Shell, (from, to): (&Place, &Place), way: &Way) -> Result<u8, Problem> {
    way.check(&[from, to])?;
    let what = format!("the store cannot be moved from {from} to {to}");
    if from == to {
        return Err(Problem::usage(what).why("both are the same place"));
    }
    let source = stores::open(from, For::Reading, way)?;
    let moved = move_out(&*source, (from, to), way, &what).await;
    source.close().await;
    let many = moved?;
    if shell.output().is_data() {
        let (from, to) = (from.to_string(), to.to_string());
        shell.data(&json!({ "records": many, "from": from, "to": to }))?;
        return Ok(0);
    }
    shell.line(&format!("{many} records are moved from {from} to {to}, and compared"))?;
    shell.line(&format!(
        "What is in {from} stays as it is; do not start a scheduler with it again."
    ))?;
    if matches!(to, Place::Etcd(_)) {
        tell_password(shell, way)?;
    }
    next(shell, &[to.scheduler(way)])?;
    Ok(0)
}

/// Copies a store into another; tells how many records that were.
async fn move_out(
    source: &dyn Store,
    (from, to): (&Place, &Place),
    way: &Way,
    what: &str,
) -> Result<usize, Problem> {
    let failed = |error: Error| Problem::new(what).why(error.to_string());
    let term = stores::hold(source, from).await?;
    let moved = stores::holding(source, term, async {
        let records = source.dump().await.map_err(failed)?;
        if records.is_empty() {
            return Err(Problem::new(what).why(format!("the store in {from} is empty")));
        }
        let records = archive::for_moving(records).map_err(failed)?;
        let many = records.len();
        let target = stores::open(to, For::Filling, way)?;
        let filled = fill(&*target, to, what, records).await;
        target.close().await;
        filled.map(|()| many)
    });
    let many = moved.await?;
    source.resign(term).await.map_err(failed)?;
    Ok(many)
}

/// Fills an empty store that no scheduler runs with, and looks whether all of it is there.
async fn fill(store: &dyn Store, place: &Place, what: &str, records: Pairs) -> Result<(), Problem> {
    let failed = |error: Error| Problem::new(what).why(error.to_string());
    let term = stores::hold(store, place).await?;
    store.resign(term).await.map_err(failed)?;
    match store.fill(records.clone()).await {
        Ok(()) => {}
        Err(error @ Error::NotEmpty { .. }) => {
            let problem = Problem::new(what).why(error.to_string());
            return Err(match place {
                Place::Folder(folder) => {
                    let file = folder.join(persys_store::embedded::FILE);
                    let file = file.display();
                    problem
                        .next("name a directory that does not exist yet, or move the store away:")
                        .next(format!("mv {file} {file}.old"))
                }
                Place::Etcd(_) => problem
                    .next("name an etcd that holds nothing of this system, or another --etcd-root"),
            });
        }
        Err(error) => return Err(failed(error)),
    }
    if store.dump().await.map_err(failed)? == records {
        Ok(())
    } else {
        Err(Problem::new(what).why(format!("{place} holds something else than was written to it")))
    }
}

fn next(shell: &Shell, commands: &[String]) -> Result<(), Problem> {
    shell.line("next:")?;
    for command in commands {
        // A scheduler is started under this name alone.
        let command = match command.strip_prefix("persys scheduler ") {
            Some(_) => command.clone(),
            None => shell.typed(command),
        };
        shell.line(&format!("  {command}"))?;
    }
    Ok(())
}

fn tell_password(shell: &Shell, way: &Way) -> Result<(), Problem> {
    if way.needs_variable() {
        shell.line("The scheduler takes the password from ETCD_PASSWORD too.")?;
    }
    Ok(())
}

fn named(archive: &Archive) -> String {
    match &archive.header.cluster {
        Some(cluster) => format!("the cluster {cluster}"),
        None => "a cluster whose head cannot be read".to_owned(),
    }
}

fn now() -> WallMillis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn moment(at: WallMillis) -> String {
    let then = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(at.0));
    // Beyond the year 9999 no text for it is agreed on.
    let then = then.filter(|_| at.0 < 253_402_300_800_000);
    then.map_or_else(|| format!("{} ms", at.0), now_text)
}
