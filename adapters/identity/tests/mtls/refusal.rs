//! Who gets through and who does not.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use persys_identity::peer::PeerError;
use persys_identity::{
    Bundle, Certificate, ConnectError, Connector, Credentials, Expected, Grant, Issued, Name, Role,
    Validity,
};
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

use crate::bench::{HOUR, ask, authority, call, credentials, dial, hold, issue, listener, serve};

#[tokio::test]
async fn the_server_knows_who_calls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let server = serve(&credentials(&authority, Role::Scheduler, "s1")).await;
    for (role, name) in [(Role::Agent, "n1"), (Role::Operator, "ann"), (Role::Scheduler, "s2")] {
        let issued = issue(&authority, role, name);
        let told = call(server.address, &hold(&issued), Expected::Scheduler).await.unwrap();
        assert_eq!(told, format!("{role}/{name}/{}", issued.certificate.serial));
    }
}

#[tokio::test]
async fn an_agent_is_dialled_by_its_node() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let server = serve(&credentials(&authority, Role::Agent, "n1")).await;
    let scheduler = credentials(&authority, Role::Scheduler, "s1");
    let node = |name| Expected::Agent(Name::fixed(name));
    call(server.address, &scheduler, node("n1")).await.unwrap();
    call(server.address, &scheduler, node("n2")).await.unwrap_err();
}

/// What a client reads first that believes any server of `root`'s and shows what it is given.
async fn first_read(address: SocketAddr, root: &str, shown: Option<&Issued>) -> std::io::Error {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some(issued) => {
            let chain = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
            config.with_client_auth_cert(vec![chain], key).unwrap()
        }
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("scheduler.east").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    // In TLS 1.3 a client learns of its refusal when it first reads.
    stream.read(&mut [0; 64]).await.unwrap_err()
}

#[tokio::test]
async fn no_certificate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let server = serve(&credentials(&authority, Role::Scheduler, "s1")).await;
    let refused = first_read(server.address, authority.root_pem(), None).await;
    assert!(refused.to_string().contains("CertificateRequired"), "{refused}");
    server.told.wait("tls_handshake_failed").await;
    let agent = credentials(&authority, Role::Agent, "n1");
    call(server.address, &agent, Expected::Scheduler).await.unwrap();
}

#[tokio::test]
async fn a_foreign_authority_is_refused_on_both_sides() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ours, foreign) = (authority(folder.path(), "east"), authority(elsewhere.path(), "east"));
    let server = serve(&credentials(&ours, Role::Scheduler, "s1")).await;

    // The client does not believe the server.
    let stranger = issue(&foreign, Role::Agent, "n1");
    let refused = call(server.address, &hold(&stranger), Expected::Scheduler).await;
    assert!(refused.unwrap_err().contains("UnknownIssuer"));

    // A client that believes both is not believed itself.
    let roots_pem = format!("{}{}", ours.root_pem(), foreign.root_pem());
    let sly = hold(&Issued { roots_pem, ..stranger });
    call(server.address, &sly, Expected::Scheduler).await.unwrap_err();
    server.told.wait("UnknownIssuer").await;
}

#[tokio::test]
async fn another_cluster_is_refused_even_if_its_root_is_trusted() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (east, west) = (authority(folder.path(), "east"), authority(elsewhere.path(), "west"));
    let both = format!("{}{}", east.root_pem(), west.root_pem());
    let trusting = |issued| hold(&Issued { roots_pem: both.clone(), ..issued });
    let server = serve(&trusting(issue(&east, Role::Scheduler, "s1"))).await;
    let western = issue(&west, Role::Scheduler, "s1");
    first_read(server.address, east.root_pem(), Some(&western)).await;
    server.told.wait("of another cluster").await;
    let neighbour = trusting(issue(&east, Role::Agent, "n1"));
    call(server.address, &neighbour, Expected::Scheduler).await.unwrap();
}

#[tokio::test]
async fn a_client_refuses_a_server_of_another_role() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let client = credentials(&authority, Role::Agent, "n9");
    for role in [Role::Agent, Role::Gateway] {
        let server = serve(&credentials(&authority, role, "n1")).await;
        let connector = Connector::tls(&client, Expected::Scheduler).unwrap();
        let error = dial(server.address, connector).await.unwrap_err();
        let Some(ConnectError::WrongPeer { source: PeerError::Unexpected { found, .. }, .. }) =
            ConnectError::within(&error)
        else {
            panic!("{error:?}");
        };
        assert_eq!(found.role, role);
    }
    // Those that only call cannot serve at all.
    for role in [Role::Operator, Role::User] {
        let server = serve(&credentials(&authority, role, "n1")).await;
        let refused = call(server.address, &client, Expected::Scheduler).await.unwrap_err();
        assert!(refused.contains("InvalidPurpose"), "{refused}");
    }
}

/// An agent with a certificate for the scheduler's host name, as an authority would give it that
/// honours what is asked for: the role in the URI still gives it away.
#[tokio::test]
async fn a_host_name_alone_makes_no_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let stored = fs::read_to_string(folder.path().join("authority.pem")).unwrap();
    let root_key = KeyPair::from_pem(&stored).unwrap();
    let issuer = Issuer::from_ca_cert_pem(authority.root_pem(), root_key).unwrap();
    let mut params = CertificateParams::new(vec!["scheduler.east".to_owned()]).unwrap();
    let uri = "spiffe://example.org/east/agent/n1".try_into().unwrap();
    params.subject_alt_names.push(SanType::URI(uri));
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let liar = params.signed_by(&key, &issuer).unwrap();
    let liar = Issued {
        certificate: Certificate::read(liar.der()).unwrap(),
        certificate_pem: liar.pem(),
        key_pem: key.serialize_pem().into(),
        roots_pem: authority.root_pem().to_owned(),
    };
    let server = serve(&hold(&liar)).await;
    let client = credentials(&authority, Role::Agent, "n2");
    let connector = Connector::tls(&client, Expected::Scheduler).unwrap();
    let error = dial(server.address, connector).await.unwrap_err();
    let found = ConnectError::within(&error);
    assert!(matches!(found, Some(ConnectError::WrongPeer { .. })), "{found:?}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let then = SystemTime::now() - 48 * HOUR;
    let expired = |role, name| {
        let grant = Grant::new(role, Name::fixed(name));
        let issued = authority.issue(&grant, Validity { now: then, lifetime: HOUR }).unwrap();
        Bundle::from_issued(&issued, SystemTime::now()).unwrap_err();
        Credentials::new(Bundle::from_issued(&issued, then).unwrap())
    };
    let server = serve(&credentials(&authority, Role::Scheduler, "s1")).await;
    let client = expired(Role::Agent, "n1");
    call(server.address, &client, Expected::Scheduler).await.unwrap_err();
    server.told.wait("expired").await;

    let server = serve(&expired(Role::Scheduler, "s1")).await;
    let client = credentials(&authority, Role::Agent, "n1");
    let refused = call(server.address, &client, Expected::Scheduler).await.unwrap_err();
    assert!(refused.contains("Expired"), "{refused}");
}

#[tokio::test]
async fn a_dead_process_is_told_from_a_bad_answer() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), "east");
    let client = credentials(&authority, Role::Agent, "n1");
    let connector = Connector::tls(&client, Expected::Scheduler).unwrap();
    let address = listener().await.local_addr().unwrap();
    let error = dial(address, connector.clone()).await.unwrap_err();
    let found = ConnectError::within(&error);
    assert!(matches!(found, Some(ConnectError::NotListening { .. })), "{found:?}");

    // The same for a channel that dials when it is first used.
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect_with_connector_lazy(connector);
    let status = ask(&mut AgentServiceClient::new(channel)).await.unwrap_err();
    let found = ConnectError::within(&status);
    assert!(matches!(found, Some(ConnectError::NotListening { .. })), "{status:?}");
}
