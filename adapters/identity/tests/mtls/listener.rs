//! A listener goes on, whatever comes.

use std::time::SystemTime;

use persys_identity::{
    ClusterName, Connector, Expected, Exposure, Incoming, Role, Source, Watcher,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;

use crate::bench::{
    Told, ask, authority, call, credentials, dial, issue, listener, serve, serve_incoming,
};

fn east() -> ClusterName {
    ClusterName::new("east").unwrap()
}

#[tokio::test]
async fn silence_and_noise_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let server = serve(&credentials(&authority, Role::Scheduler, "s1")).await;
    let mut silent = Vec::new();
    for number in 0..100 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        }
        silent.push(stream);
    }
    let client = credentials(&authority, Role::Agent, "n1");
    call(server.address, &client, Expected::Scheduler).await.unwrap();
    server.told.wait("tls_handshake_failed").await;
    drop(silent);
    call(server.address, &client, Expected::Scheduler).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_caller_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let told = Told::default();
    let server = credentials(&authority, Role::Scheduler, "s1");
    let mut incoming = Incoming::tls(listener().await, &server, told.report()).unwrap();
    let address = incoming.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { while incoming.next().await.is_some() {} });
    let _silent = TcpStream::connect(address).await.unwrap();
    told.wait("no handshake within 5s").await;
}

#[tokio::test]
async fn without_certificates_everybody_here_is_the_anonymous_operator() {
    let told = Told::default();
    let plain = Incoming::plain(listener().await, east(), Exposure::Loopback, told.report());
    let server = serve_incoming(plain.unwrap(), told);
    let mut client = dial(server.address, Connector::plain()).await.unwrap();
    assert_eq!(ask(&mut client).await.unwrap(), "operator/anonymous/plain");
}

#[tokio::test]
async fn without_certificates_nobody_else_is_let_in() {
    let open = async || TcpListener::bind("0.0.0.0:0").await.unwrap();
    let report = || Told::default().report();
    let refused = Incoming::plain(open().await, east(), Exposure::Loopback, report());
    assert!(refused.unwrap_err().to_string().contains("listen on 127.0.0.1"));
    Incoming::plain(open().await, east(), Exposure::Anywhere, report()).unwrap();
}

#[tokio::test]
async fn plain_and_secure_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let server = serve(&credentials(&authority, Role::Scheduler, "s1")).await;
    if let Ok(mut client) = dial(server.address, Connector::plain()).await {
        ask(&mut client).await.unwrap_err();
    }
    let told = Told::default();
    let plain = Incoming::plain(listener().await, east(), Exposure::Loopback, told.report());
    let plain = serve_incoming(plain.unwrap(), told);
    let client = credentials(&authority, Role::Agent, "n1");
    call(plain.address, &client, Expected::Scheduler).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_running_watcher_takes_up_and_tells() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(&folder.path().join("ca"), "east");
    let source = Source::Bundle(folder.path().join("agent.pem"));
    source.save(&issue(&authority, Role::Agent, "n1")).unwrap();
    let watcher = Watcher::open(source.clone(), SystemTime::now()).unwrap();
    let (credentials, told) = (watcher.credentials(), Told::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(watcher.run(SystemTime::now, told.report()));
    let next = issue(&authority, Role::Agent, "n1");
    source.save(&next).unwrap();
    told.wait("tls_reloaded").await;
    assert_eq!(credentials.current().certificate(), &next.certificate);
}
