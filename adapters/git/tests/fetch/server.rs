//! A server of repositories over http: git's own `http-backend` behind a few lines of HTTP.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// How it behaves.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    /// The only `Authorization` it takes.
    pub(crate) authorization: Option<String>,
    /// Takes connections and never says a word.
    pub(crate) silent: bool,
    /// Sends everybody there.
    pub(crate) redirect: Option<String>,
}

pub(crate) struct Server {
    pub(crate) origin: String,
    /// The first line and the headers of every request.
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Serves the repositories below `root`.
    pub(crate) async fn start(root: &Path, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (root, log) = (root.to_owned(), Arc::clone(&heard));
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (root, manner, log) = (root.clone(), manner.clone(), Arc::clone(&log));
                tokio::spawn(async move {
                    let _gone = answer(stream, root, manner, log).await;
                });
            }
        });
        Self { origin, heard, task }
    }
}

async fn answer(
    stream: TcpStream,
    root: PathBuf,
    manner: Manner,
    log: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    log.lock().unwrap().push(format!("{first}{headers:?}"));
    if manner.silent {
        std::future::pending::<()>().await;
    }
    if let Some(to) = &manner.redirect {
        let text = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        return stream.write_all(text.as_bytes()).await;
    }
    if manner.authorization.is_some()
        && headers.get("authorization") != manner.authorization.as_ref()
    {
        let text = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\
                    Content-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(text.as_bytes()).await;
    }
    let body = body(&mut stream, &headers).await?;
    let said = backend(&root, &first, &headers, body).await?;
    stream.write_all(&said).await?;
    stream.shutdown().await
}

async fn body(
    stream: &mut BufReader<TcpStream>,
    headers: &BTreeMap<String, String>,
) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|how| how == "chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; length + 2];
            stream.read_exact(&mut chunk).await?;
            if length == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..length]);
        }
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    body.resize(length, 0);
    stream.read_exact(&mut body).await?;
    Ok(body)
}

async fn backend(
    root: &Path,
    first: &str,
    headers: &BTreeMap<String, String>,
    body: Vec<u8>,
) -> std::io::Result<Vec<u8>> {
    let mut words = first.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let mut child = tokio::process::Command::new("/usr/bin/git")
        .arg("http-backend")
        .env_clear()
        .envs([
            ("PATH", "/usr/bin:/bin"),
            ("GIT_HTTP_EXPORT_ALL", "1"),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("REQUEST_METHOD", method),
            ("PATH_INFO", path),
            ("QUERY_STRING", query),
        ])
        .env("GIT_PROJECT_ROOT", root)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut input = child.stdin.take().unwrap();
    let writing = async move {
        input.write_all(&body).await?;
        input.shutdown().await
    };
    let (written, output) = tokio::join!(writing, child.wait_with_output());
    written?;
    let output = output?.stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
    let (head, rest) = output.split_at((end + 4).min(output.len()));
    let head = String::from_utf8_lossy(head).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let mut said = format!("HTTP/1.1 {status}\r\nConnection: close\r\n").into_bytes();
    for line in head.lines().filter(|line| !line.is_empty() && !line.starts_with("Status: ")) {
        said.extend_from_slice(format!("{line}\r\n").as_bytes());
    }
    said.extend_from_slice(format!("Content-Length: {}\r\n\r\n", rest.len()).as_bytes());
    said.extend_from_slice(rest);
    Ok(said)
}
