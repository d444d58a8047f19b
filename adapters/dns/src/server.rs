//! Sockets: questions over UDP and TCP, on one port.
//!
//! Datagrams are answered one by one by one task, so that a flood takes one core and no memory.
//! Connections are few, short and counted.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::answer::{Over, answer};
use crate::book::Book;
use crate::meter::{Meter, Share};

/// Connections at a time; the next waits until one ends.
const MOST_CONNECTIONS: usize = 64;
/// Questions on one connection.
const MOST_QUESTIONS: usize = 128;
/// How long a connection may be silent, and how long it may take to take an answer.
const SILENCE: Duration = Duration::from_secs(5);
/// How long a connection may last: whoever has more to ask comes again.
const LIFE: Duration = Duration::from_secs(30);
/// Largest question: one with every extension fits in a quarter of it.
const LARGEST_QUESTION: usize = 4_096;
/// Tries to find one port that is free for both.
const TRIES: usize = 16;
/// The pause after a fault of a socket, so that a lasting one does not take a core.
const PAUSE: Duration = Duration::from_millis(100);

/// A server that has its port.
#[derive(Debug)]
pub struct Server {
    udp: UdpSocket,
    tcp: TcpListener,
    /// Where it is.
    pub address: SocketAddr,
}

impl Server {
    /// Takes the port for both; port 0 takes any that is free for both.
    pub async fn bind(at: SocketAddr) -> io::Result<Self> {
        let mut tries = 0;
        loop {
            let tcp = TcpListener::bind(at).await?;
            let address = tcp.local_addr()?;
            tries += 1;
            match UdpSocket::bind(address).await {
                Ok(udp) => return Ok(Self { udp, tcp, address }),
                Err(_) if at.port() == 0 && tries < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Answers from `book`, for ever; dropping it ends it.
    pub async fn serve(self, book: Arc<Book>) {
        let datagrams = serve_datagrams(self.udp, Arc::clone(&book));
        let connections = serve_connections(self.tcp, book);
        tokio::join!(datagrams, connections);
    }
}

async fn serve_datagrams(socket: UdpSocket, book: Arc<Book>) {
    let mut buffer = vec![0; LARGEST_QUESTION];
    let mut meter = Meter::new(Instant::now());
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let over = match meter.share(from.ip(), Instant::now()) {
            Share::Full => Over::Udp,
            Share::Short => Over::UdpShort,
            Share::Nothing => continue,
        };
        let question = buffer.get(..length).unwrap_or_default();
        if let Some(reply) = answer(&book, question, over) {
            // Whoever asked does not listen any more, or asks again.
            drop(socket.send_to(&reply, from).await);
        }
    }
}

async fn serve_connections(listener: TcpListener, book: Arc<Book>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let book = Arc::clone(&book);
        connections.spawn(async move {
            // A connection that fails was the other side's.
            drop(timeout(LIFE, serve_connection(stream, &book)).await);
            drop(permit);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(mut stream: TcpStream, book: &Book) -> io::Result<()> {
    for _ in 0..MOST_QUESTIONS {
        let question = timeout(SILENCE, read_question(&mut stream)).await??;
        let Some(reply) = answer(book, &question, Over::Tcp) else { return Ok(()) };
        let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend(reply);
        timeout(SILENCE, stream.write_all(&framed)).await??;
    }
    Ok(())
}

async fn read_question(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > LARGEST_QUESTION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut question = vec![0; length];
    stream.read_exact(&mut question).await?;
    Ok(question)
}
