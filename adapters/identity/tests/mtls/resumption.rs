//! Every connection proves both ends anew: a session that is resumed would keep who was believed at
//! its first handshake.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use persys_identity::web::{Asked, WebDoor};
use persys_identity::{Authority, Incoming, Issued, Role};
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, HandshakeKind, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_stream::StreamExt as _;

use crate::bench::{Told, authority, credentials, issue, listener};

fn roots(authority: &Authority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.root_pem().as_bytes()).unwrap();
    roots.add(root).unwrap();
    Arc::new(roots)
}

fn parts(issued: &Issued) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
    (vec![chain], PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap())
}

/// A client that would resume wherever it is let.
fn eager(authority: &Authority) -> Arc<ClientConfig> {
    let (chain, key) = parts(&issue(authority, Role::Agent, "n1"));
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots(authority))
        .with_client_auth_cert(chain, key);
    Arc::new(config.unwrap())
}

/// How the second connection came about, after the first had every chance to be told how to resume.
async fn second(at: SocketAddr, client: &Arc<ClientConfig>, name: &'static str) -> HandshakeKind {
    let mut kind = HandshakeKind::Full;
    for _ in 0..2 {
        let stream = TcpStream::connect(at).await.unwrap();
        let name = ServerName::try_from(name).unwrap();
        let connector = TlsConnector::from(Arc::clone(client));
        let mut stream = connector.connect(name, stream).await.unwrap();
        kind = stream.get_ref().1.handshake_kind().unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut said = [0; 1];
        let heard = stream.read(&mut said);
        drop(tokio::time::timeout(Duration::from_millis(500), heard).await);
    }
    kind
}

/// Takes one connection after another, and says a word on each.
fn greet(tasks: &mut JoinSet<()>, listener: TcpListener, acceptor: TlsAcceptor) {
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            stream.write_all(b"x").await.unwrap();
            stream.read_exact(&mut [0; 5]).await.unwrap();
        }
    });
}

#[tokio::test]
async fn a_second_connection_shakes_hands_like_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let mut tasks = JoinSet::new();

    // As servers usually are, the second one resumes: this test would notice.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(&authority), Arc::clone(&provider));
    let (chain, key) = parts(&issue(&authority, Role::Scheduler, "s1"));
    let usual = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain, key);
    let (listening, acceptor) = (listener().await, TlsAcceptor::from(Arc::new(usual.unwrap())));
    let at = listening.local_addr().unwrap();
    greet(&mut tasks, listening, acceptor);
    let client = eager(&authority);
    assert_eq!(second(at, &client, "scheduler.east").await, HandshakeKind::Resumed);

    // Ours do not, wherever certificates are checked or shown.
    let scheduler = credentials(&authority, Role::Scheduler, "s1");
    let both = Incoming::tls(listener().await, &scheduler, Told::default().report()).unwrap();
    let one = Incoming::one_sided(listener().await, &scheduler, Told::default().report()).unwrap();
    for (mut incoming, what) in [(both, "both sides"), (one, "one side")] {
        let at = incoming.local_addr().unwrap();
        tasks.spawn(async move {
            while let Some(Ok(mut connection)) = incoming.next().await {
                connection.write_all(b"x").await.unwrap();
                connection.flush().await.unwrap();
            }
        });
        let kind = second(at, &eager(&authority), "scheduler.east").await;
        assert_ne!(kind, HandshakeKind::Resumed, "{what}");
    }
    let gateway = credentials(&authority, Role::Gateway, "g1");
    for asked in [Asked::Required, Asked::Optional] {
        let (door, listening) = (WebDoor::new(&gateway, asked).unwrap(), listener().await);
        let at = listening.local_addr().unwrap();
        tasks.spawn(async move {
            loop {
                let (stream, remote) = listening.accept().await.unwrap();
                let mut guest = door.admit(stream, remote).await.unwrap();
                guest.stream.write_all(b"x").await.unwrap();
                guest.stream.flush().await.unwrap();
            }
        });
        let kind = second(at, &eager(&authority), "gateway.east").await;
        assert_ne!(kind, HandshakeKind::Resumed, "{asked:?}");
    }
}
