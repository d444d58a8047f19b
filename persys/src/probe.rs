//! `persys probe`: asks a component whether it is well, where there is no shell to do it.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};

use crate::tell;

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
        Err(why) => {
            eprintln!("persys probe: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn ask(options: &Options) -> Result<(), String> {
    let Options { url, timeout } = options;
    let client = reqwest::Client::builder()
        .timeout(*timeout)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        // Whoever listens on this machine's own address is whom we mean, whatever name it shows.
        .tls_danger_accept_invalid_certs(is_own(url))
        .build()
        .map_err(|error| tell::chain(&error))?;
    let answer = client.get(url.clone()).send().await.map_err(|error| tell::chain(&error))?;
    if answer.status().is_success() {
        return Ok(());
    }
    Err(format!("{url} answers {}", answer.status()))
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

    async fn answering(status: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/health", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0_u8; 1024];
            let read = stream.read(&mut asked).await.unwrap();
            assert!(asked[..read].starts_with(b"GET /health "));
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        url
    }

    #[tokio::test]
    async fn it_is_well_only_if_the_page_says_so() {
        let of = |url: String| Options::try_parse_from(["persys probe", &url]).unwrap();
        assert_eq!(ask(&of(answering("200 OK").await)).await, Ok(()));
        let why = ask(&of(answering("503 Service Unavailable").await)).await.unwrap_err();
        assert!(why.contains("answers 503"), "{why}");
        let why = ask(&of(answering("301 Moved").await)).await.unwrap_err();
        assert!(why.contains("answers 301"), "{why}");
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(ask(&of(format!("http://{nobody}/"))).await.is_err());
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
