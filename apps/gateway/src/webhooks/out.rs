//! Others are told of events: signed, in order, each until it is taken or given up.
//!
//! The form is that of Standard Webhooks: `webhook-id`, `webhook-timestamp`, and `webhook-signature`
//! over both and the body. A listener's address is looked up and judged before every message, and the
//! connection goes to exactly the address that was judged; nobody is followed elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::ledger::Ledger;
use crate::caller::{Caller, Secret};
use crate::clusters::order::Keys;
use crate::events::{Filter, Follower, Told};
use crate::gateway::Gateway;
use crate::rest::Target;

/// How long one message may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How often one is tried, and how long after the first failure it is tried again; then twice that.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Most listeners.
const MOST: usize = 64;

/// Somebody who is told of events.
#[derive(Debug, Clone)]
pub struct Listener {
    /// What it is called here.
    pub name: String,
    /// Where it is told.
    pub url: String,
    /// What the messages are signed with.
    pub secret: Secret,
    /// Which types of events it wants; all of them when there are none.
    pub types: Vec<String>,
    /// Events of which cluster; the usual one when it is empty.
    pub cluster: String,
    /// Whether it may be inside: at an address that cannot be reached from everywhere.
    pub is_inside: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listeners: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    url: String,
    secret_file: PathBuf,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    allow_private: bool,
}

/// The listeners a file names, or everything that is wrong with it. `secret` reads a file with a
/// secret.
pub fn parse(
    text: &str,
    secret: impl Fn(&PathBuf) -> Result<String, String>,
) -> Result<Vec<Listener>, Vec<String>> {
    let file: File = serde_saphyr::from_str(text).map_err(|fault| vec![fault.to_string()])?;
    let (mut faults, mut all) = (Vec::new(), Vec::<Listener>::new());
    if file.listeners.len() > MOST {
        faults.push(format!("listeners: at most {MOST} are possible"));
    }
    for (nth, row) in file.listeners.into_iter().take(MOST).enumerate() {
        let at = format!("listeners[{nth}]");
        if row.name.is_empty() || all.iter().any(|other| other.name == row.name) {
            faults.push(format!("{at}.name: is empty or given twice"));
        }
        let safe = row.url.starts_with("https://")
            || (row.allow_private && row.url.starts_with("http://"));
        if !safe || reqwest::Url::parse(&row.url).is_err() {
            faults.push(format!("{at}.url: is not an https address"));
        }
        let secret = match secret(&row.secret_file) {
            Ok(text) if text.len() >= 16 => Secret::new(&text),
            Ok(_) => {
                faults.push(format!("{at}.secret_file: a secret has at least 16 letters"));
                continue;
            }
            Err(fault) => {
                faults.push(format!("{at}.secret_file: {fault}"));
                continue;
            }
        };
        let Row { name, url, types, cluster, allow_private, .. } = row;
        all.push(Listener { name, url, secret, types, cluster, is_inside: allow_private });
    }
    if faults.is_empty() { Ok(all) } else { Err(faults) }
}

/// Tells all of them for ever; ends when dropped.
pub(super) async fn run(
    gateway: &Gateway,
    listeners: &[Listener],
    caller: &Caller,
    ledger: &Arc<Ledger>,
) {
    join_all(listeners.iter().map(|listener| tell(gateway, listener, caller, ledger))).await;
}

async fn tell(gateway: &Gateway, listener: &Listener, caller: &Caller, ledger: &Arc<Ledger>) {
    let Ok(cluster) = gateway.clusters.find(Some(&listener.cluster)).cloned() else {
        return tracing::warn!(listener = listener.name, "there is no cluster of that name");
    };
    loop {
        let last = ledger.told(&listener.name).ok().flatten().unwrap_or_default();
        let hub = gateway.hubs.follow(&cluster, caller, &gateway.rights);
        let target = Target {
            cluster: Arc::clone(&cluster),
            caller: caller.clone(),
            source: None,
            keys: Keys::default(),
        };
        let mut follower = Follower::new(hub, target, Filter::default(), last);
        loop {
            match follower.next().await {
                Told::Event(event) => {
                    let wanted = &listener.types;
                    if wanted.is_empty() || wanted.contains(&event.kind) {
                        send(gateway, listener, &event.id, &event.kind, &event.json).await;
                    }
                    if let Err(fault) = ledger.tell(&listener.name, &event.id) {
                        tracing::warn!(listener = listener.name, %fault, "may be told again");
                    }
                }
                Told::State { .. } => {}
                Told::End => break,
            }
        }
        sleep(Duration::from_secs(5)).await;
    }
}

async fn send(gateway: &Gateway, listener: &Listener, id: &str, kind: &str, event: &str) {
    let event: serde_json::Value = serde_json::from_str(event).unwrap_or_default();
    let body =
        json!({"type": kind, "timestamp": event.get("timestamp"), "data": event}).to_string();
    let mut pause = FIRST_PAUSE;
    for nth in 1..=TRIES {
        match once(listener, id, &body).await {
            Ok(()) => return gateway.metrics.webhook("out", "done"),
            Err(why) if nth == TRIES => {
                gateway.metrics.webhook("out", "failed");
                tracing::warn!(listener = listener.name, id, why, "was not told of an event");
            }
            Err(why) => {
                tracing::debug!(listener = listener.name, id, why, "is told again");
                sleep(pause).await;
                pause = pause.saturating_mul(2);
            }
        }
    }
}

async fn once(listener: &Listener, id: &str, body: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(&listener.url).map_err(|fault| fault.to_string())?;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err("the address names no host".to_owned());
    };
    let addresses = judged(host, port, listener.is_inside).await?;
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .timeout(WITHIN)
        .resolve_to_addrs(host, &addresses)
        .build()
        .map_err(|fault| fault.to_string())?;
    let id = format!("evt_{id}");
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let sent = client
        .post(url)
        .header("content-type", "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", seconds.to_string())
        .header("webhook-signature", signature(&listener.secret, &id, seconds, body))
        .body(body.to_owned())
        .send()
        .await
        .map_err(|fault| fault.to_string())?;
    if sent.status().is_success() { Ok(()) } else { Err(format!("answered {}", sent.status())) }
}

/// The addresses of a host, if every one of them may be called.
async fn judged(host: &str, port: u16, is_inside: bool) -> Result<Vec<SocketAddr>, String> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = timeout(WITHIN, tokio::net::lookup_host((host, port))).await;
    let found = found.map_err(|_late| "its name is not answered in time".to_owned())?;
    let all: Vec<_> = found.map_err(|fault| fault.to_string())?.collect();
    if all.is_empty() {
        return Err("its name has no address".to_owned());
    }
    match all.iter().find(|address| !is_inside && !is_public(address.ip())) {
        None => Ok(all),
        Some(address) => Err(format!("{} is not an address that everybody reaches", address.ip())),
    }
}

/// Whether an address can be reached from everywhere: none of this machine, of this network, or of
/// what a cloud offers to its machines.
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_broadcast()
                || ip.is_documentation()
                || ip.is_multicast()
                || a == 0
                || a >= 240
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && (b == 18 || b == 19)))
        }
        IpAddr::V6(ip) => {
            let first = ip.segments().first().copied().unwrap_or(0);
            // Global unicast alone, without what wraps an address of the other kind.
            (0x2000..0x4000).contains(&first)
                && first != 0x2002
                && !(first == 0x2001 && ip.segments().get(1).is_some_and(|next| *next < 0x0200))
                && ip.segments().get(..2) != Some(&[0x2001, 0x0db8])
        }
    }
}

/// The signature of a message.
fn signature(secret: &Secret, id: &str, seconds: u64, body: &str) -> String {
    // A secret as those who made the standard write it is base64 after its prefix.
    let text = secret.reveal();
    let key = text.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    let key = key.unwrap_or_else(|| text.as_bytes().to_vec());
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let tag = hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the standard itself.
    #[test]
    fn the_published_example_is_signed_so() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed = signature(
            &secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            "{\"test\": 2432232314}",
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn addresses_inside_are_told_from_those_outside() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "2002:7f00:1::",
            "2001:db8::1",
            "ff02::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1"] {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused() {
        assert!(judged("localhost", 80, false).await.is_err());
        assert!(judged("[::1]", 80, false).await.is_err());
        assert!(judged("127.0.0.1", 80, true).await.is_ok());
    }

    #[test]
    fn all_faults_of_a_file_are_named_at_once() {
        let read = |path: &PathBuf| match path.to_str() {
            Some("/good") => Ok("a secret of enough letters".to_owned()),
            Some("/short") => Ok("short".to_owned()),
            _ => Err("is not there".to_owned()),
        };
        let good = "listeners: [{name: chat, url: 'https://chat.test/hook', secret_file: /good, types: [NodeLost]}]";
        assert_eq!(parse(good, read).unwrap().len(), 1);
        let bad = "listeners:\n  - {name: a, url: 'http://x.test', secret_file: /short}\n  \
                   - {name: a, url: 'ftp://x', secret_file: /none}\n";
        let faults = parse(bad, read).unwrap_err();
        assert!(faults.len() >= 4, "{faults:?}");
    }
}
