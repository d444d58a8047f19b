//! One tab of Chromium, driven by `chromedriver`: what a person does, and what a person sees.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use fantoccini::key::Key;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// How long something may take to be seen.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A tab.
#[derive(Debug)]
pub struct Tab {
    client: Client,
    /// Ends with this.
    _driver: Child,
}

/// Width and height of what is seen of a page.
#[derive(Debug, Clone, Copy)]
pub struct Screen(pub u32, pub u32);

impl Screen {
    /// A laptop's.
    pub const LAPTOP: Self = Self(1280, 860);
    /// A phone's.
    pub const PHONE: Self = Self(390, 844);
}

impl Tab {
    /// Starts a browser with an empty tab.
    pub async fn open() -> Self {
        let port = free_port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("chromedriver starts; hack/browser-install installs it");
        let address = format!("http://127.0.0.1:{port}");
        let begun = Instant::now();
        loop {
            match ClientBuilder::new(HttpConnector::new())
                .capabilities(capabilities())
                .connect(&address)
                .await
            {
                Ok(client) => return Self { client, _driver: driver },
                Err(why) => assert!(begun.elapsed() < PATIENCE, "no browser: {why}"),
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Goes to an address.
    pub async fn go(&self, address: &str) {
        self.client.goto(address).await.expect("the address can be gone to");
    }

    /// Goes to another view of the page, without loading it anew.
    pub async fn go_within(&self, hash: &str) {
        self.run(&format!("location.hash = {}", json!(hash))).await;
    }

    /// Runs a script in the page.
    pub async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.expect("the script runs")
    }

    /// Runs a script that calls back when it is done.
    pub async fn run_to_end(&self, script: &str) -> Value {
        self.client.execute_async(script, Vec::new()).await.expect("the script runs to its end")
    }

    /// Waits until an element is there that says `text`, and is seen.
    pub async fn sees(&self, css: &str, text: &str) {
        let script = format!(
            "return [...document.querySelectorAll({})].some((found) => found.checkVisibility() && found.textContent.includes({}))",
            json!(css),
            json!(text)
        );
        self.until(&script, &format!("{css} says {text:?}")).await;
    }

    /// Waits until a script returns true.
    pub async fn until(&self, script: &str, what: &str) {
        let begun = Instant::now();
        while self.run(script).await != json!(true) {
            if begun.elapsed() > PATIENCE {
                self.keep("left-behind").await;
                let shown = self.run("return document.body.innerText").await;
                panic!("not seen: {what}; the page says:\n{}", shown.as_str().unwrap_or_default());
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Presses the button or follows the link that says exactly `text`.
    pub async fn press(&self, text: &str) {
        let path = format!(
            "//*[self::button or self::a][normalize-space()={}]",
            json!(text) // no name of ours holds a quote
        );
        self.click(Locator::XPath(&path)).await;
    }

    /// Clicks on the first element a selector finds, once it can be clicked on.
    pub async fn click_on(&self, css: &str) {
        self.click(Locator::Css(css)).await;
    }

    async fn click(&self, locator: Locator<'_>) {
        let begun = Instant::now();
        loop {
            let clicked = match self.client.find(locator).await {
                Ok(element) => element.click().await,
                Err(why) => Err(why),
            };
            // The page may have drawn it anew between the two.
            let Err(why) = clicked else { return };
            assert!(begun.elapsed() < PATIENCE, "{locator:?} cannot be clicked on: {why}");
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Replaces what a field holds.
    pub async fn fill(&self, css: &str, text: &str) {
        self.sees_element(css).await;
        let script = format!(
            "const field = document.querySelector({}); field.value = {}; field.dispatchEvent(new Event('input', {{ bubbles: true }}))",
            json!(css),
            json!(text)
        );
        self.run(&script).await;
    }

    async fn sees_element(&self, css: &str) {
        let script = format!("return document.querySelector({}) !== null", json!(css));
        self.until(&script, css).await;
    }

    /// Chooses files of this machine in a field for files.
    pub async fn choose(&self, css: &str, paths: &[PathBuf]) {
        self.sees_element(css).await;
        let field = self.client.find(Locator::Css(css)).await.expect("a field for files");
        let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        field.send_keys(&paths.join("\n")).await.expect("files can be chosen");
    }

    /// Chooses an entry of a list.
    pub async fn select(&self, css: &str, value: &str) {
        self.sees_element(css).await;
        let script = format!(
            "const list = document.querySelector({}); list.value = {}; list.dispatchEvent(new Event('change', {{ bubbles: true }}))",
            json!(css),
            json!(value)
        );
        self.run(&script).await;
    }

    /// Calls the interface of the gateway as the page does, and tells the status.
    pub async fn asks(&self, verb: &str, path: &str, body: Option<&Value>) -> Value {
        let body = body.map_or(Value::Null, |body| json!(body.to_string()));
        let script = format!(
            "const done = arguments[arguments.length - 1];
             const headers = {{ 'Content-Type': 'application/json' }};
             fetch({}, {{ method: {}, headers, body: {body} ?? undefined }}).then((answer) => done(answer.status))",
            json!(path),
            json!(verb)
        );
        self.run_to_end(&script).await
    }

    /// Types into whatever has the focus.
    pub async fn types(&self, text: &str) {
        let element = self.client.active_element().await.expect("something has the focus");
        element.send_keys(text).await.expect("keys can be pressed");
    }

    /// Presses Enter.
    pub async fn enters(&self) {
        self.types(&String::from(char::from(Key::Enter))).await;
    }

    /// Has the page shown on another screen.
    pub async fn on(&self, Screen(width, height): Screen) {
        let parameters = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", parameters).await;
    }

    /// Prefers light or dark colours from now on.
    pub async fn prefers(&self, colours: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": colours}]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        let command = Extra { path: "goog/cdp/execute", body };
        self.client.issue_cmd(command).await.expect("the browser obeys");
    }

    /// Keeps a picture of what is seen under `target/screenshots`.
    pub async fn keep(&self, name: &str) {
        let folder = pictures();
        std::fs::create_dir_all(&folder).expect("a folder for pictures");
        // Short messages of what was done before hide what is shown.
        self.run("document.getElementById('toasts')?.replaceChildren()").await;
        let picture = self.client.screenshot().await.expect("a picture is taken");
        std::fs::write(folder.join(format!("{name}.png")), picture).expect("a picture is kept");
    }

    /// What the browser complained about since the last time: errors of scripts, breaches of the
    /// policy of contents, files that are missing.
    pub async fn complaints(&self) -> Vec<String> {
        let command = Extra { path: "se/log", body: json!({"type": "browser"}) };
        let entries = self.client.issue_cmd(command).await.expect("the browser's log");
        let severe = |entry: &&Value| entry["level"] == "SEVERE";
        let text = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        entries.as_array().into_iter().flatten().filter(severe).map(text).collect()
    }

    /// Ends the browser.
    pub async fn close(self) {
        self.client.clone().close().await.expect("the browser ends");
    }
}

fn capabilities() -> Capabilities {
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
    ];
    let mut all = Capabilities::new();
    all.insert("browserName".to_owned(), json!("chrome"));
    all.insert("goog:chromeOptions".to_owned(), json!({"args": arguments}));
    all.insert("goog:loggingPrefs".to_owned(), json!({"browser": "ALL"}));
    all
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// Where pictures are kept.
pub fn pictures() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")));
    target.join("screenshots")
}

/// A command of this browser that is not in the standard.
#[derive(Debug)]
struct Extra {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}
