//! A pull that takes a while shows its progress to whoever waits and to whoever asks.

use std::time::{Duration, Instant};

use persys_e2e::engine::{Engine, IMAGE};
use persys_e2e::part::Pace;
use persys_e2e::processes::{PATIENCE, Stack, free_port};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::program;
use crate::refusals::Registry;
use crate::typed::{done, typed};

const MIB: usize = 1 << 20;
/// Size of the part that has to be fetched.
const PART_MIB: usize = 24;
/// Bytes that pass the slow line in one turn, and the length of a turn.
const TURN: (usize, Duration) = (MIB / 4, Duration::from_millis(80));

/// Passes connections on to the registry; what comes back takes its time.
async fn slow_line(at: u16, registry: u16) {
    let listener = TcpListener::bind(("127.0.0.1", at)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(("127.0.0.1", registry)).await else { return };
                let ((mut up, mut back), (mut heard, mut said)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(async move {
                    drop(tokio::io::copy(&mut up, &mut said).await);
                });
                let mut buffer = vec![0; TURN.0];
                while let Ok(read @ 1..) = heard.read(&mut buffer).await {
                    if back.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(
                        TURN.1 * u32::try_from(read).unwrap() / u32::try_from(TURN.0).unwrap(),
                    )
                    .await;
                }
            });
        }
    });
}

/// An image with one part that no node has, in a registry behind a slow line.
fn publish(docker: &Engine, image: &str, name: &str) {
    let script = format!("head -c {} /dev/urandom > /part", PART_MIB * MIB);
    docker.docker(&["run", "--name", name, IMAGE, "/bin/sh", "-c", &script]);
    docker.docker(&["commit", name, image]);
    docker.docker(&["rm", name]);
    docker.docker(&["push", "-q", image]);
    docker.docker(&["rmi", image]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_shows_its_progress() {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let (id, port, line) = (stack.id("web"), free_port(), free_port());
    let _registry = Registry::start(port);
    slow_line(line, port).await;
    let (image, docker) = (format!("127.0.0.1:{line}/{id}:1"), Engine::shared());
    let (published, name) = (image.clone(), format!("{id}-publisher"));
    tokio::task::spawn_blocking(move || publish(&Engine::shared(), &published, &name))
        .await
        .unwrap();

    let command = format!("run {image} --name {id} --restart always -- sleep 1000");
    let begun = Instant::now();
    let looks = async {
        loop {
            let view = stack.look(&id).await.ok().flatten();
            let pull = view.and_then(|view| view.pull).filter(|pull| pull.of_bytes > 0);
            if let Some(pull) = pull.filter(|pull| pull.bytes < pull.of_bytes) {
                let why = done(&stack, &format!("why {id}"), "").await;
                let shown = done(&stack, &format!("get {id}"), "").await;
                break (pull, why, shown);
            }
            assert!(begun.elapsed() < PATIENCE, "no progress is seen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (said, (pull, why, shown)) = tokio::join!(typed(&stack, &command, ""), looks);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(pull.of_bytes >= u64::try_from(PART_MIB * MIB).unwrap(), "{pull:?}");
    for text in [&said.remarked, &why, &shown] {
        let told = text.lines().any(|line| line.contains("pulling image, "));
        assert!(told, "{text}");
    }
    let sized = |line: &str| line.contains("pulling image, ") && line.ends_with(" MiB");
    assert!(said.remarked.lines().any(sized), "{}", said.remarked);
    let lines = said.remarked.lines().filter(|line| line.contains("pulling image")).count();
    let most = begun.elapsed().as_secs() / 5 + 1;
    assert!(
        u64::try_from(lines).unwrap() <= most,
        "{lines} lines, at most {most}: {}",
        said.remarked
    );
    let view = stack.until_status(&id, "Running").await;
    assert_eq!(view.pull, None, "nothing is pulled any more");
    stack.delete(&id).await;
    docker.docker(&["rmi", &image]);
}
