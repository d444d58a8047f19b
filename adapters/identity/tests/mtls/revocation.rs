//! Who is no longer believed is cut off, whichever end notices.

use std::time::{Duration, Instant, SystemTime};

use persys_identity::{
    Bundle, Connector, Credentials, Denied, Expected, Grant, Name, Role, Validity,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bench::{ask, authority, call, credentials, dial, issue, serve};

/// What the promise is.
const PROMISED: Duration = Duration::from_secs(5);

fn denied(lines: &[String]) -> Denied {
    Denied::of_lines(lines).unwrap_or_default()
}

#[tokio::test]
async fn whoever_is_revoked_is_cut_off_and_kept_out() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let scheduler = credentials(&authority, Role::Scheduler, "s1");
    let (bad, good) = (issue(&authority, Role::Agent, "n1"), issue(&authority, Role::Agent, "n2"));
    let hold = |issued| Credentials::new(Bundle::from_issued(issued, SystemTime::now()).unwrap());
    let server = serve(&scheduler).await;
    for line in ["agent/n1".to_owned(), format!("serial/{}", bad.certificate.serial)] {
        let connector = |issued| Connector::tls(&hold(issued), Expected::Scheduler).unwrap();
        let mut revoked = dial(server.address, connector(&bad)).await.unwrap();
        let mut other = dial(server.address, connector(&good)).await.unwrap();
        ask(&mut revoked).await.unwrap();
        ask(&mut other).await.unwrap();
        let begun = Instant::now();
        scheduler.revoked().replace(denied(&[line]));
        // The channel dials again by itself, and is refused again.
        while ask(&mut revoked).await.is_ok() {
            assert!(begun.elapsed() < PROMISED, "still served");
        }
        assert!(begun.elapsed() < PROMISED);
        ask(&mut other).await.unwrap();
        call(server.address, &hold(&bad), Expected::Scheduler).await.unwrap_err();
        server.told.wait("agent/n1 was revoked").await;
        scheduler.revoked().replace(Denied::default());
        ask(&mut revoked).await.unwrap();
    }
}

#[tokio::test]
async fn a_quiet_connection_is_cut_too() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let scheduler = credentials(&authority, Role::Scheduler, "s1");
    let agent = credentials(&authority, Role::Agent, "n1");
    let server = serve(&scheduler).await;
    let (config, name) = persys_identity::tls::client_config(&agent, Expected::Scheduler).unwrap();
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await.unwrap();
    // The beginning of a conversation, and then silence.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut settings = [0; 9];
    stream.read_exact(&mut settings).await.unwrap();
    // Others come onto the list first: whoever waits is woken for each, and waits on.
    for other in ["agent/n2", "agent/n3"] {
        scheduler.revoked().replace(denied(&[other.to_owned()]));
        let mut more = [0; 256];
        let waits = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut more)).await;
        assert!(!matches!(waits, Ok(Ok(0) | Err(_))), "{other} is somebody else");
    }
    scheduler.revoked().replace(denied(&["agent/n1".to_owned()]));
    let rest = tokio::time::timeout(PROMISED, async {
        let mut rest = Vec::new();
        // Ends, with or without a farewell.
        stream.read_to_end(&mut rest).await.ok();
    });
    rest.await.expect("the connection is still there");
}

#[tokio::test]
async fn a_client_notices_a_revoked_server() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let server = serve(&credentials(&authority, Role::Agent, "n1")).await;
    let scheduler = credentials(&authority, Role::Scheduler, "s1");
    let expected = Expected::Agent(Name::fixed("n1"));
    let connector = Connector::tls(&scheduler, expected.clone()).unwrap();
    let mut client = dial(server.address, connector).await.unwrap();
    ask(&mut client).await.unwrap();
    scheduler.revoked().replace(denied(&["agent/n1".to_owned()]));
    let begun = Instant::now();
    while ask(&mut client).await.is_ok() {
        assert!(begun.elapsed() < PROMISED, "still asked");
    }
    let refused = call(server.address, &scheduler, expected).await.unwrap_err();
    assert!(refused.contains("revoked") || refused.contains("Revoked"), "{refused}");
}

#[tokio::test]
async fn a_connection_does_not_outlive_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let server = serve(&credentials(&authority, Role::Scheduler, "s1")).await;
    let validity = Validity { now: SystemTime::now(), lifetime: Duration::from_secs(2) };
    let issued = authority.issue(&Grant::new(Role::Agent, Name::fixed("n1")), validity).unwrap();
    let agent = Credentials::new(Bundle::from_issued(&issued, SystemTime::now()).unwrap());
    let connector = Connector::tls(&agent, Expected::Scheduler).unwrap();
    let mut client = dial(server.address, connector).await.unwrap();
    ask(&mut client).await.unwrap();
    let begun = Instant::now();
    while ask(&mut client).await.is_ok() {
        assert!(begun.elapsed() < 2 * PROMISED, "still served");
        tokio::task::yield_now().await;
    }
    // A certificate counts in whole seconds, and the last of them may just be over.
    while call(server.address, &agent, Expected::Scheduler).await.is_ok() {
        assert!(begun.elapsed() < 2 * PROMISED, "still let in");
    }
    server.told.wait("certificate expired").await;
}
