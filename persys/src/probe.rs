//! `persys probe`: asks a component whether it is well, where there is no shell to do it.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};

use crate::tell;

/// How much of a page that is not well is shown, in characters.
const MOST_SAID: usize = 400;

/// Ask a page of /health; ends with 0 if it says that all is well.
#[derive(Debug, Clone, Parser)]
#[command(name = "persys probe")]
struct Options {
    /// The page, such as <http://127.0.0.1:8084/health>
    #[arg(env = "PERSYS_PROBE_URL", default_value = "http://127.0.0.1:8084/health")]
    url: reqwest::Url,
    /// Longest wait
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = humantime::parse_duration)]
    timeout: Duration,
}

/// What can be typed after `persys probe`.
pub(crate) fn command() -> clap::Command {
    Options::command().name("probe")
}

/// Asks, and says so where it is not well.
pub(crate) async fn run(words: Vec<OsString>) -> ExitCode {
    let options: Options = match tell::typed("persys probe", words) {
        Ok(options) => options,
        Err(code) => return code,
    };
    match ask(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("persys probe: {}", tell::chain(&fault));
            eprintln!("next: {}", fault.next_step(&options.url));
            ExitCode::FAILURE
        }
    }
}

/// Why a component does not count as well.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("nothing can be asked from here")]
    Unable(#[source] reqwest::Error),
    #[error("there is no answer")]
    Silent(#[source] reqwest::Error),
    #[error("{url} answers {status}{said}")]
    Answered { url: reqwest::Url, status: reqwest::StatusCode, said: String },
}

impl Fault {
    /// What to type or to look at.
    fn next_step(&self, url: &reqwest::Url) -> String {
        match self {
            Self::Unable(_) => "persys doctor      (looks at this host)".to_owned(),
            Self::Silent(why) if why.is_timeout() => {
                format!(
                    "persys probe {url} --timeout 30s      (it may be busy; its log says with what)"
                )
            }
            Self::Silent(_) => "start it, or name the page it has: the usual port is 8084 of a \
                                scheduler, 8089 of an agent, 8585 of a gateway"
                .to_owned(),
            Self::Answered { status, .. } if status.is_server_error() => {
                "read its log; persys doctor looks at this host".to_owned()
            }
            Self::Answered { .. } => {
                let mut page = url.clone();
                page.set_path("/health");
                format!("persys probe {page}      (the page that says whether all is well)")
            }
        }
    }
}

async fn ask(options: &Options) -> Result<(), Fault> {
    let Options { url, timeout } = options;
    let client = reqwest::Client::builder()
        .timeout(*timeout)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        // Whoever listens on this machine's own address is whom we mean, whatever name it shows.
        .tls_danger_accept_invalid_certs(is_own(url))
        .build()
        .map_err(Fault::Unable)?;
    let mut answer = client.get(url.clone()).send().await.map_err(Fault::Silent)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    // The page says what is wrong, and the beginning of it is enough.
    let said = answer.chunk().await.ok().flatten().unwrap_or_default();
    let said: String = String::from_utf8_lossy(&said).trim().chars().take(MOST_SAID).collect();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(Fault::Answered { url: url.clone(), status, said })
}

/// Whether the address is one of this machine alone.
fn is_own(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn answering(status: &'static str, body: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/health", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0_u8; 1024];
            let read = stream.read(&mut asked).await.unwrap();
            assert!(asked[..read].starts_with(b"GET /health "));
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        url
    }

    fn of(url: &str) -> Options {
        Options::try_parse_from(["persys probe", url, "--timeout", "500ms"]).unwrap()
    }

    /// What is said of it, and what to do next.
    async fn fault(url: &str) -> (String, String) {
        let fault = ask(&of(url)).await.unwrap_err();
        (tell::chain(&fault), fault.next_step(&of(url).url))
    }

    #[tokio::test]
    async fn it_is_well_only_if_the_page_says_so() {
        assert!(ask(&of(&answering("200 OK", "").await)).await.is_ok());
        let url = answering("503 Service Unavailable", r#"{"status":"no leader"}"#).await;
        let (why, next) = fault(&url).await;
        assert!(why.contains("answers 503") && why.ends_with(r#"{"status":"no leader"}"#), "{why}");
        assert!(next.contains("read its log"), "{next}");
        let (why, next) = fault(&answering("301 Moved", "").await).await;
        assert!(why.ends_with("answers 301 Moved Permanently"), "{why}");
        assert!(next.contains("/health "), "{next}");
    }

    #[tokio::test]
    async fn silence_is_told_with_what_to_do_about_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (why, next) = fault(&format!("http://{at}/health")).await;
        assert!(why.starts_with("there is no answer: "), "{why}");
        assert!(next.contains("--timeout 30s"), "{next}");
        drop(listener);
        let (why, next) = fault(&format!("http://{at}/health")).await;
        assert!(why.contains("refused"), "{why}");
        assert!(next.contains("8089 of an agent"), "{next}");
    }

    #[test]
    fn only_this_machine_is_believed_without_a_name() {
        for (url, own) in [
            ("https://127.0.0.1:8585/health", true),
            ("https://[::1]:8585/health", true),
            ("https://10.0.0.1/health", false),
            ("https://localhost.example/health", false),
        ] {
            assert_eq!(is_own(&url.parse().unwrap()), own, "{url}");
        }
    }
}
