//! A proxy between the browser and the gateway that fails as networks and gateways do.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::sleep;

const LARGEST: usize = 1 << 20;
const STREAM: &str = "/v1/events/stream";

/// Behaviour of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Passes everything on.
    Pass,
    /// Answers 503; streams that are open stay open.
    Unavailable,
    /// Accepts requests and never answers.
    Hung,
    /// Cuts the streams of events and answers 503 to new ones; everything else is passed on.
    NoStream,
}

/// A proxy with an address of its own.
#[derive(Debug)]
pub struct Proxy {
    /// Address the browser uses.
    pub address: SocketAddr,
    gateway: SocketAddr,
    manner: watch::Sender<Manner>,
    /// Ends with all its connections when it is shut down.
    server: Option<Runtime>,
}

#[derive(Clone)]
struct Shared {
    gateway: SocketAddr,
    manner: watch::Receiver<Manner>,
    client: reqwest::Client,
}

impl Proxy {
    /// Starts one in front of a gateway.
    pub async fn before(gateway: SocketAddr) -> Self {
        let (manner, _) = watch::channel(Manner::Pass);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut proxy = Self { address, gateway, manner, server: None };
        proxy.open().await;
        proxy
    }

    /// Behaves this way from now on.
    pub fn set(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }

    /// Ends all connections and refuses new ones.
    pub fn close(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
    }

    /// Listens, at the address it had before if there was one.
    pub async fn open(&mut self) {
        // The address may be in use for a moment by what is just being shut down.
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        self.address = listener.local_addr().expect("it has an address");
        let listener = listener.into_std().expect("a listener");
        let shared = Shared {
            gateway: self.gateway,
            manner: self.manner.subscribe(),
            client: reqwest::Client::new(),
        };
        let server = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let server = server.expect("a runtime");
        server.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let router = Router::new().fallback(pass).with_state(shared);
            axum::serve(listener, router).await.expect("it serves");
        });
        self.server = Some(server);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

async fn pass(State(mut shared): State<Shared>, request: Request) -> Response {
    let is_stream = request.uri().path() == STREAM;
    let manner = *shared.manner.borrow_and_update();
    match manner {
        Manner::Pass => {}
        Manner::NoStream if !is_stream => {}
        Manner::Unavailable | Manner::NoStream => {
            return (StatusCode::SERVICE_UNAVAILABLE, "not now").into_response();
        }
        Manner::Hung => {
            // The sender lives as long as the test.
            drop(shared.manner.wait_for(|manner| *manner != Manner::Hung).await);
        }
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LARGEST).await.expect("a body");
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let url = format!("http://{}{path}", shared.gateway);
    let asked = shared.client.request(parts.method, url).headers(parts.headers).body(body);
    let Ok(answer) = asked.send().await else { return StatusCode::BAD_GATEWAY.into_response() };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        response = response.header(name, value);
    }
    let mut manner = shared.manner;
    let cut = async move { drop(manner.wait_for(|manner| *manner == Manner::NoStream).await) };
    let pieces = answer.bytes_stream();
    let body = if is_stream {
        Body::from_stream(pieces.take_until(Box::pin(cut)))
    } else {
        Body::from_stream(pieces)
    };
    response.body(body).expect("a response")
}
