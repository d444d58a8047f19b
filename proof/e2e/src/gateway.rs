//! A gateway in front of stacks.

#![expect(clippy::expect_used, reason = "a test stops at what cannot be")]

use std::net::SocketAddr;
use std::time::Duration;

use persys_gateway::app::{self, Config, Security};
use persys_gateway::clusters::file::{ClusterPlan, Plan, SchedulerPlan};
use persys_gateway::clusters::order::Routing;
use persys_gateway::limits::Limits;
use persys_identity::{Role, Source};

use crate::stack::Stack;

/// What a gateway to these clusters is told: names and where a scheduler of each is. Everything is
/// on ports that are free.
#[must_use]
pub fn config(clusters: &[(&str, SocketAddr)]) -> Config {
    let cluster = |(id, at): &(&str, SocketAddr)| ClusterPlan {
        id: (*id).to_owned(),
        name: (*id).to_owned(),
        routing: Routing::LeaderOnly,
        schedulers: vec![SchedulerPlan {
            id: "s1".to_owned(),
            address: at.to_string(),
            is_leader: true,
        }],
        identity: None,
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        inner: Some(any),
        public: any,
        security: Security::Insecure,
        public_is_plain: true,
        plan: Plan {
            default: clusters.first().map(|(id, _)| (*id).to_owned()).unwrap_or_default(),
            clusters: clusters.iter().map(cluster).collect(),
            repositories: std::collections::BTreeMap::new(),
        },
        request_timeout: Duration::from_secs(5),
        health_interval: Duration::from_millis(200),
        discovery: None,
        limits: Limits::default(),
        webhooks: None,
    }
}

/// A gateway to one stack, changed as a test wants it.
pub async fn start(stack: &Stack, change: impl FnOnce(&mut Config)) -> app::Running {
    let mut config = config(&[("stack", stack.scheduler.grpc)]);
    if let Some(source) = stack.certificate(Role::Gateway, "gateway") {
        config.security = Security::Mtls(source);
    }
    change(&mut config);
    app::start(config).await.expect("a gateway")
}

/// The file of a certificate.
#[must_use]
pub fn file(source: &Source) -> Vec<u8> {
    let Source::Bundle(path) = source else { unreachable!("certificates of tests are one file") };
    std::fs::read(path).expect("a certificate")
}
