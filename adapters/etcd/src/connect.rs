//! Dialling one member of etcd.
//!
//! Certificates are read for each new connection, so that a rotation needs no restart. A connection
//! that could not be made is told from a call that failed on one: the former surely did nothing.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tonic::transport::Uri;
use tower_service::Service;

use crate::endpoint::Endpoint;
use crate::settings::Tls;

/// Why a member was not reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The machine is away, or nobody listens.
    #[error("{address} is not reached")]
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("no secure connection to {address}: {why}")]
    Files {
        /// Where.
        address: String,
        /// Which, and why.
        why: String,
    },
    /// Somebody answers, but not with a handshake we accept, or refuses ours.
    #[error("no secure connection to {address}")]
    Handshake {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl ConnectError {
    /// The one inside an error of a channel or a call, if that failed for want of a connection.
    pub(crate) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    /// With its cause.
    pub(crate) fn told(&self) -> String {
        match self.source() {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// Makes connections to one member.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    endpoint: Endpoint,
    tls: Option<Arc<Tls>>,
    patience: Duration,
}

impl Connector {
    pub(crate) fn new(endpoint: Endpoint, tls: Option<Arc<Tls>>, patience: Duration) -> Self {
        let tls = tls.filter(|_| endpoint.tls != Some(false));
        Self { endpoint, tls, patience }
    }

    async fn connect(self) -> Result<ClientStream, ConnectError> {
        let address = self.endpoint.to_string();
        let dial = TcpStream::connect((self.endpoint.host(), self.endpoint.port()));
        let dialled = timeout(self.patience, dial).await.unwrap_or_else(|_| Err(too_late()));
        let stream = dialled
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|source| ConnectError::Unreachable { address: address.clone(), source })?;
        let Some(tls) = &self.tls else { return Ok(Either::Left(stream)) };
        let files = |why| ConnectError::Files { address: address.clone(), why };
        let config = config(tls).map_err(files)?;
        let name = tls.server_name.as_deref().unwrap_or(self.endpoint.host()).to_owned();
        let name =
            ServerName::try_from(name.clone()).map_err(|why| files(format!("{name:?}: {why}")))?;
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let shaken = timeout(self.patience, handshake).await.unwrap_or_else(|_| Err(too_late()));
        shaken
            .map(|stream| Either::Right(Box::new(stream)))
            .map_err(|source| ConnectError::Handshake { address, source })
    }
}

/// What the files say, at this moment.
fn config(tls: &Tls) -> Result<ClientConfig, String> {
    let certificates = |path: &std::path::Path| {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let read: Vec<CertificateDer<'static>> =
            read.map_err(|why| format!("{}: {why}", path.display()))?;
        if read.is_empty() {
            return Err(format!("{}: holds no certificate", path.display()));
        }
        Ok(read)
    };
    let mut roots = RootCertStore::empty();
    for root in certificates(&tls.roots)? {
        roots.add(root).map_err(|why| format!("{}: {why}", tls.roots.display()))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots);
    let mut config = match &tls.own {
        None => builder.with_no_client_auth(),
        Some((certificate, key_path)) => {
            let key = PrivateKeyDer::from_pem_file(key_path)
                .map_err(|why| format!("{}: {why}", key_path.display()))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, key)
                .map_err(|why| format!("{}: {why}", certificate.display()))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

impl Service<Uri> for Connector {
    type Response = TokioIo<ClientStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect().await.map(TokioIo::new) })
    }
}

/// Our end of a connection: without certificates, or with them.
pub(crate) type ClientStream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

fn too_late() -> io::Error {
    io::ErrorKind::TimedOut.into()
}
