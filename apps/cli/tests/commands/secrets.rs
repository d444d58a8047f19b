//! Secrets: given once, found nowhere but where they belong.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use crate::rig::{Rig, Told};

/// What must be nowhere, and what it looks like in base64 and in hex.
const CANARY: &str = "canary-7f3a9c51e8b2";
const NEXT_CANARY: &str = "canary-0d64be27a19f";

fn shapes(value: &str) -> Vec<Vec<u8>> {
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    // In base64 the middle of a text looks one of three ways, by where it begins.
    let base64 = (0..3).map(|before| {
        let text = format!("{}{value}", "x".repeat(before));
        let encoded = base64(text.as_bytes());
        let inner = encoded.get(4..encoded.len() - 6).unwrap().to_owned();
        inner.into_bytes()
    });
    let mut all = vec![value.as_bytes().to_vec(), hex.into_bytes()];
    all.extend(base64);
    all
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let mut word = [0_u8; 3];
        word[..part.len()].copy_from_slice(part);
        let number = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for at in 0..=part.len() {
            let digit = (number >> (18 - 6 * at)) & 63;
            text.push(char::from(DIGITS[usize::try_from(digit).unwrap()]));
        }
    }
    text
}

fn holds(bytes: &[u8]) -> bool {
    let all = [CANARY, NEXT_CANARY].into_iter().flat_map(shapes);
    all.into_iter().any(|shape| bytes.windows(shape.len()).any(|part| part == shape))
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// All that is logged in this process, from the first call on.
fn logged() -> &'static Arc<Mutex<Vec<u8>>> {
    static LOGGED: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    LOGGED.get_or_init(|| {
        let to = Arc::new(Mutex::new(Vec::new()));
        let writer = Log(Arc::clone(&to));
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        to
    })
}

#[derive(Clone)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The file in memory in which the agent shows a secret to a workload.
fn shown(rig: &Rig, workload: &str, secret: &str) -> Option<PathBuf> {
    let user = format!("persys-secrets-{}", rustix_uid(rig));
    ["/run", "/dev/shm", "/tmp"].iter().find_map(|memory| {
        let folder = Path::new(memory).join(&user);
        let agents = std::fs::read_dir(folder).ok()?;
        let mut files = agents.flatten().map(|agent| agent.path().join(workload).join(secret));
        files.find(|file| file.exists())
    })
}

fn rustix_uid(rig: &Rig) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(rig.folder.path()).unwrap().uid()
}

fn stack() -> &'static str {
    "services:\n  db:\n    image: postgres\n    secrets: [canary-db]\nsecrets:\n  canary-db: \
     {external: true}\n"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_found_nowhere_but_in_its_place() {
    let logged = logged();
    let mut rig = Rig::start().await;
    let mut told: Vec<Told> = Vec::new();
    // A workload that names a secret nobody set fails and says what to type.
    let failed = rig.types("run web --name keyed --secret canary-db").await;
    assert_ne!(failed.code, 0, "{failed:?}");
    let why = rig.types("why keyed").await.ended(0);
    assert!(why.out.contains("persys secret set canary-db"), "{why:?}");
    told.extend([failed, why]);

    // From what is typed, and from a file; then all that uses it starts.
    told.push(rig.types_with("secret set canary-db", &format!("{CANARY}\n")).await.ended(0));
    rig.until("get keyed -o json", |told| {
        told.code == 0 && told.out.contains("\"status\": \"Running\"")
    })
    .await;
    let file = shown(&rig, "keyed", "canary-db").expect("a file in memory");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), CANARY);
    told.push(rig.types("run web --name other --secret-env PASSWORD=canary-db").await.ended(0));
    let path = rig.file("compose.yaml", stack());
    told.push(rig.types(&format!("apply {path} --id shop")).await.ended(0));
    assert!(shown(&rig, "shop", "canary-db").is_some(), "stacks see it too");

    // A new value: what runs keeps the old one until it is started again.
    let next = std::env::temp_dir().join(format!("persys-canary-{}", std::process::id()));
    std::fs::write(&next, NEXT_CANARY).unwrap();
    let line = format!("secret set canary-db --from-file {}", next.display());
    let set = rig.types(&line).await.ended(0);
    std::fs::remove_file(&next).unwrap();
    assert!(set.out.contains("version 2") && set.out.contains("persys restart"), "{set:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), CANARY);
    told.push(set);
    told.push(rig.types("restart keyed").await.ended(0));
    let file = shown(&rig, "keyed", "canary-db").expect("a file in memory");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), NEXT_CANARY);

    // An agent that starts again needs nobody to tell it.
    rig.stop_agents().await;
    let copy = rig.path("copy.snapshot");
    for line in [
        "secret list -o json".to_owned(),
        "secret show canary-db".to_owned(),
        "secret rotate-key".to_owned(),
        "get keyed -o json".to_owned(),
        "get other --secrets -o json".to_owned(),
        "why keyed".to_owned(),
        "events -o json".to_owned(),
        "audit -o json".to_owned(),
        format!("snapshot save {copy}"),
        "status".to_owned(),
    ] {
        told.push(rig.types(&line).await);
    }
    let listed = rig.types("secret list -o json").await.ended(0).json();
    assert_eq!(listed[0]["version"], 2);
    assert_eq!(listed[0]["readable"], true, "{listed}");

    rig.stop_scheduler().await;
    for told in &told {
        assert!(!holds(told.out.as_bytes()) && !holds(told.err.as_bytes()), "{told:?}");
    }
    let mut looked_at = 0;
    for file in files(rig.folder.path()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        looked_at += bytes.len();
        assert!(!holds(&bytes), "{} has it", file.display());
    }
    assert!(looked_at > 100_000, "{looked_at} bytes were looked at");
    let log = logged.lock().unwrap().clone();
    assert!(log.len() > 1_000 && !holds(&log), "the log has it");
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!holds(&line), "an argument of {}", process.path().display());
    }
    if let Some(own) = file.parent().and_then(Path::parent) {
        std::fs::remove_dir_all(own).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_set_shown_without_its_value_and_deleted() {
    let rig = Rig::start().await;
    rig.types_with("secret set Bad_Name", "v").await.ended(1);
    let empty = rig.types_with("secret set db", "").await.ended(64);
    assert!(empty.err.contains("empty"), "{empty:?}");
    rig.types_with("secret set db --namespace nowhere", "v").await.ended(1);
    let set = rig.types_with("secret set db", "hunter2").await.ended(0);
    assert!(set.out.contains("version 1"), "{set:?}");
    let shown = rig.types("secret show db").await.ended(0);
    assert!(shown.out.contains("operator admin") && !shown.out.contains("hunter2"), "{shown:?}");
    // What uses it runs on when it goes, and says so.
    rig.types("run web --name one --secret db").await.ended(0);
    let gone = rig.types("secret delete db").await.ended(0);
    assert!(gone.out.contains("one run"), "{gone:?}");
    rig.types("secret show db").await.ended(1);
    assert!(rig.types("secret list").await.ended(0).out.contains("no secrets"));
    rig.types("delete one").await.ended(0);
    assert_eq!(super::secrets::shown(&rig, "one", "db"), None, "it goes with the workload");
    rig.stop().await;
}
