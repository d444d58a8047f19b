//! A Docker that has nothing and counts how often it is asked what it has.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// It ends with the test's process; whoever is connected then is cut off.
#[derive(Clone, Default)]
pub(crate) struct Engine {
    asked: Arc<AtomicU64>,
}

impl Engine {
    pub(crate) fn listen(socket: &Path) -> Self {
        let (engine, listener) = (Self::default(), UnixListener::bind(socket).unwrap());
        let answering = engine.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answering = answering.clone();
                std::thread::spawn(move || answering.answer(&stream));
            }
        });
        engine
    }

    /// How often it was asked what it has.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// One request; a caller that goes away is no matter.
    fn answer(&self, stream: &UnixStream) {
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let Some(request) = lines.next() else { return };
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        let path = request.split_whitespace().nth(1).unwrap_or_default();
        let mut out = stream;
        if path.contains("/events") {
            // Nothing ever happens: the answer does not end before the caller does.
            drop(write!(out, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"));
            drop(out.read(&mut [0]));
            return;
        }
        let body = match path {
            path if path.contains("/containers/json") => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                "[]"
            }
            path if path.contains("/version") => r#"{"Version":"24.0","ApiVersion":"1.43"}"#,
            path if path.contains("/_ping") => "OK",
            _ => "{}",
        };
        let kind = "content-type: application/json\r\nconnection: close";
        let length = body.len();
        drop(write!(out, "HTTP/1.1 200 OK\r\n{kind}\r\ncontent-length: {length}\r\n\r\n{body}"));
    }
}
