//! A crowd in a process of its own: connections that are opened and then say nothing. One process may
//! have so many open files, and both ends of ten thousand connections are more than that.

#![expect(clippy::print_stdout, reason = "who starts it reads it")]

use std::ffi::OsString;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use futures::StreamExt as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpSocket;

/// Connections that are being opened at a time.
const AT_A_TIME: usize = 64;

/// `ADDRESS SOURCES EACH`: opens so many from each of so many addresses of this machine, says how many
/// there are, and holds them until its input ends.
pub fn main(words: &[OsString]) -> ExitCode {
    let texts: Vec<_> = words.iter().filter_map(|word| word.to_str()).collect();
    let [address, sources, each] = texts.as_slice() else { return ExitCode::from(2) };
    let (Ok(address), Ok(sources), Ok(each)) = (address.parse(), sources.parse(), each.parse())
    else {
        return ExitCode::from(2);
    };
    raise_open_files();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    runtime.block_on(async {
        let open = open(address, sources, each).await;
        println!("{}", open.len());
        let mut rest = Vec::new();
        // Until whoever started it is gone or has enough.
        drop(std::io::stdin().read_to_end(&mut rest));
        drop(open);
    });
    ExitCode::SUCCESS
}

async fn open(to: SocketAddr, sources: u8, each: usize) -> Vec<tokio::net::TcpStream> {
    let one = |nth: usize| async move {
        let source = u8::try_from(nth % usize::from(sources)).unwrap_or(0);
        let socket = TcpSocket::new_v4().ok()?;
        socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 1, 1 + source), 0))).ok()?;
        socket.connect(to).await.ok()
    };
    let all = futures::stream::iter((0..each * usize::from(sources)).map(one));
    all.buffer_unordered(AT_A_TIME).filter_map(std::future::ready).collect().await
}

/// As many open files as the system lets this process have.
pub fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where that is refused, there are fewer.
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap_or(());
}
