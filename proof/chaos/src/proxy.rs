//! One link between two processes: a TCP proxy that delays, holds back, cuts and loses bytes.
//!
//! Bytes that were lost cannot be made up for, so a connection that lost some ends when the link is
//! mended: both ends see what a network shows them whose packets never came.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const BUFFER: usize = 16 * 1024;

/// Behaviour of a link. *Up* is from who connects to who listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Passes everything on.
    Open,
    /// Passes everything on, later.
    Slow(Duration),
    /// Ends connections and accepts no new one.
    Cut,
    /// Keeps connections open and passes nothing on, until the link is mended.
    Held,
    /// Passes on nothing that goes up.
    NoUp,
    /// Passes on nothing that goes down.
    NoDown,
    /// Loses what goes down: requests are carried out, nobody hears of it.
    LostReplies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Way {
    fn holds(self, direction: Direction) -> bool {
        match self {
            Self::Held => true,
            Self::NoUp => direction == Direction::Up,
            Self::NoDown => direction == Direction::Down,
            Self::Open | Self::Slow(_) | Self::Cut | Self::LostReplies => false,
        }
    }
}

/// A link. Dropping it ends all its connections.
#[derive(Debug)]
pub struct Link {
    /// Address of the end that others connect to.
    pub at: SocketAddr,
    way: watch::Sender<Way>,
    task: JoinHandle<()>,
}

impl Link {
    /// A link to a process that listens at `to`, now or later.
    pub async fn to(to: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let at = listener.local_addr()?;
        let (way, seen) = watch::channel(Way::Open);
        Ok(Self { at, way, task: tokio::spawn(accept(listener, to, seen)) })
    }

    /// Behaves this way from now on.
    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, mut way: watch::Receiver<Way>) {
    loop {
        let Ok((caller, _)) = listener.accept().await else { continue };
        if *way.borrow_and_update() != Way::Cut {
            tokio::spawn(connection(caller, to, way.clone()));
        }
    }
}

/// Ends when one side does, when the link is cut, or when it is mended after bytes were lost.
async fn connection(caller: TcpStream, to: SocketAddr, mut way: watch::Receiver<Way>) {
    let Ok(server) = TcpStream::connect(to).await else { return };
    caller.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (requests, to_caller) = caller.into_split();
    let (replies, to_server) = server.into_split();
    let up = pass(requests, to_server, Direction::Up, way.clone());
    let down = pass(replies, to_caller, Direction::Down, way.clone());
    tokio::select! {
        () = up => {}
        () = down => {}
        _ = way.wait_for(|way| *way == Way::Cut) => {}
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    mut way: watch::Receiver<Way>,
) {
    let mut buffer = vec![0; BUFFER];
    let mut lost = false;
    loop {
        let count = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => count,
        };
        if way.wait_for(|way| !way.holds(direction)).await.is_err() {
            return;
        }
        let now = *way.borrow();
        if now == Way::LostReplies && direction == Direction::Down {
            lost = true;
            continue;
        }
        if lost {
            return;
        }
        if let Way::Slow(time) = now {
            tokio::time::sleep(time).await;
        }
        let Some(bytes) = buffer.get(..count) else { return };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(150);

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await.ok();
                });
            }
        });
        at
    }

    async fn said(stream: &mut TcpStream) -> Option<u8> {
        let mut one = [0];
        let read = tokio::time::timeout(MOMENT, stream.read_exact(&mut one)).await;
        read.ok()?.ok().map(|_| one.iter().sum())
    }

    #[tokio::test]
    async fn what_is_held_comes_later_and_what_is_lost_ends_the_connection() {
        let link = Link::to(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(link.at).await.unwrap();
        stream.write_all(&[1]).await.unwrap();
        assert_eq!(said(&mut stream).await, Some(1));
        for way in [Way::Held, Way::NoUp, Way::NoDown] {
            link.set(way);
            stream.write_all(&[2]).await.unwrap();
            assert_eq!(said(&mut stream).await, None, "{way:?}");
            link.set(Way::Open);
            assert_eq!(said(&mut stream).await, Some(2), "{way:?}");
        }
        link.set(Way::LostReplies);
        stream.write_all(&[3]).await.unwrap();
        assert_eq!(said(&mut stream).await, None);
        link.set(Way::Open);
        stream.write_all(&[4]).await.unwrap();
        let mut rest = Vec::new();
        assert_eq!(stream.read_to_end(&mut rest).await.ok().unwrap_or_default(), 0);
    }

    #[tokio::test]
    async fn a_cut_link_ends_connections_and_accepts_none() {
        let link = Link::to(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(link.at).await.unwrap();
        stream.write_all(&[1]).await.unwrap();
        assert_eq!(said(&mut stream).await, Some(1));
        link.set(Way::Cut);
        assert_eq!(stream.read_to_end(&mut Vec::new()).await.ok().unwrap_or_default(), 0);
        let mut next = TcpStream::connect(link.at).await.unwrap();
        assert_eq!(next.read_to_end(&mut Vec::new()).await.ok().unwrap_or_default(), 0);
    }
}
