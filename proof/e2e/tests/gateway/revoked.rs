//! What was taken away ends what is open, within seconds.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_proto::compute::v1::access_client::AccessClient;
use persys_proto::compute::v1::{
    CreateUserTokenRequest, CreateUserTokenResponse, RevokeUserTokenRequest, RoleScope,
};
use reqwest::{Client, Response};
use serde_json::json;
use tokio::time::timeout;
use tonic::transport::Channel;

use super::{PATIENCE, container, told};

/// Within so long nothing is open any more that a revoked token opened.
const SOON: Duration = Duration::from_secs(5);

async fn token(admin: &mut AccessClient<Channel>, user: &str) -> CreateUserTokenResponse {
    let request = CreateUserTokenRequest {
        user: user.to_owned(),
        role: "operator".to_owned(),
        scope: Some(RoleScope { cluster: true, ..RoleScope::default() }),
        ttl_seconds: 3600,
    };
    admin.create_user_token(request).await.unwrap().into_inner()
}

async fn follow(http: &Client, at: SocketAddr, path: &str, token: &str) -> Response {
    let request = http.get(format!("http://{at}{path}")).bearer_auth(token);
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200, "{path}");
    timeout(PATIENCE, response.chunk()).await.expect("it begins").unwrap();
    response
}

/// How long it is still open.
async fn until_end(mut response: Response) -> Duration {
    let begun = Instant::now();
    let read = async { while let Ok(Some(_)) = response.chunk().await {} };
    timeout(PATIENCE, read).await.expect("it ends");
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_end_when_the_token_that_opened_them_is_revoked_and_others_go_on() {
    let mut stack = Stack::start(Wire::Mtls).await;
    stack.add_agent("n1").await;
    let gateway = gateway::start(&stack, |_| ()).await;
    let (at, http) = (gateway.public, Client::builder().no_proxy().build().unwrap());
    let mut admin = AccessClient::new(stack.channel(Role::Operator, "alice").await);
    let (eve, bob) = (token(&mut admin, "eve").await, token(&mut admin, "bob").await);
    let asked = http.post(format!("http://{at}/v1/workloads")).bearer_auth(&bob.token);
    let (status, said) = told(asked.json(&container("web")).send().await.unwrap()).await;
    assert_eq!(status, 200, "{said}");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = http.get(format!("http://{at}/v1/workloads/web")).bearer_auth(&bob.token);
        if told(shown.send().await.unwrap()).await.1["workload"]["status"] == json!("Running") {
            break;
        }
        assert!(Instant::now() < deadline, "it does not run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let events = "/v1/events/stream?after_id=0";
    let open = [
        follow(&http, at, events, &eve.token).await,
        follow(&http, at, "/events/watch?after_id=0", &eve.token).await,
        follow(&http, at, "/v1/workloads/web/logs?follow=true", &eve.token).await,
    ];
    let mut others = follow(&http, at, events, &bob.token).await;
    admin.revoke_user_token(RevokeUserTokenRequest { id: eve.id.clone() }).await.unwrap();
    for took in futures::future::join_all(open.into_iter().map(until_end)).await {
        assert!(took <= SOON, "{took:?}");
    }
    let again = http.get(format!("http://{at}{events}")).bearer_auth(&eve.token);
    assert_eq!(again.send().await.unwrap().status().as_u16(), 401);

    // Whoever still may goes on where they were.
    let deleted = http.delete(format!("http://{at}/v1/workloads/web")).bearer_auth(&bob.token);
    assert_eq!(deleted.send().await.unwrap().status().as_u16(), 200);
    let mut text = String::new();
    while !text.contains("WorkloadDelet") {
        let chunk = timeout(PATIENCE, others.chunk()).await.expect("an event").unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk.expect("it goes on")));
    }
    gateway.stop().await;
    stack.stop().await;
}
