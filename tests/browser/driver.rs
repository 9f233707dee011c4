//! A browser, driven by the `WebDriver` protocol of `chromedriver`: JSON over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::client;

/// Name of an element in answers of the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A running browser; it ends with this value.
pub(super) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    /// The browser's files.
    _folder: TempDir,
}

impl Browser {
    /// Starts a browser. `None`, visibly, without one; that is a failure if `BROWSER_REQUIRED` is set.
    pub(super) fn start() -> Option<Self> {
        Self::start_with(&json!({}))
    }

    /// The same, without scripts.
    pub(super) fn start_without_scripts() -> Option<Self> {
        Self::start_with(&json!({ "profile.managed_default_content_settings.javascript": 2 }))
    }

    fn start_with(preferences: &Value) -> Option<Self> {
        let program = std::env::var_os("CHROMEDRIVER").unwrap_or_else(|| "chromedriver".into());
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(program);
        command.arg("--port=0").env("TMPDIR", folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut driver) = command.spawn() else {
            assert!(std::env::var_os("BROWSER_REQUIRED").is_none(), "chromedriver does not start");
            eprintln!("skipped: needs chromedriver; tests/browser.sh installs it");
            return None;
        };
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            line.split_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok()
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port.unwrap()));
        let mut browser = Self { driver, address, session: String::new(), _folder: folder };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1300,1500",
        ];
        let options = json!({ "args": arguments, "prefs": preferences });
        let capabilities = json!({ "alwaysMatch": { "goog:chromeOptions": options } });
        let session = browser.call("POST", "/session", &json!({ "capabilities": capabilities }));
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        Some(browser)
    }

    /// Opens a page, and returns when it is loaded.
    pub(super) fn open(&mut self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Runs a script in the page.
    pub(super) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The text of an element, without a script of the page.
    pub(super) fn text_of(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        let path = format!("{}/element/{}/text", self.session, found[ELEMENT].as_str().unwrap());
        self.call("GET", &path, &Value::Null).as_str().unwrap().to_owned()
    }

    /// Presses the tabulator key.
    pub(super) fn press_tab(&mut self) {
        let keys = ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": "\u{e004}" }));
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": keys }] }));
    }

    /// Lets pages see this preference: `light` or `dark`.
    pub(super) fn prefer_color_scheme(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.post("/goog/cdp/execute", &command);
    }

    /// Shows pages on a screen of this size, in pixels of CSS.
    pub(super) fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": size });
        self.post("/goog/cdp/execute", &command);
    }

    /// The page as a picture, in Base64.
    pub(super) fn screenshot(&self) -> Value {
        self.call("GET", &format!("{}/screenshot", self.session), &Value::Null)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    /// Sends one command. Panics with what the driver answers to one that fails.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            self.address,
            body.len()
        );
        connection.write_all(head.as_bytes()).unwrap();
        connection.write_all(body.as_bytes()).unwrap();
        let reply = client::parse(&read_reply(connection));
        let mut answer: Value = serde_json::from_str(&reply.body).expect(&reply.body);
        assert_eq!(reply.status, 200, "{method} {path}: {answer}");
        answer["value"].take()
    }
}

/// Reads one answer by its length: the driver keeps connections open, whatever the request says.
fn read_reply(connection: TcpStream) -> String {
    let mut connection = BufReader::new(connection);
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        assert_ne!(connection.read_line(&mut text).unwrap(), 0, "the driver closed the connection: {text}");
    }
    let length = text
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.expect("a content-length")];
    connection.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap()
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // Ends the browser; the driver does not when it is killed.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.call("DELETE", &self.session, &Value::Null)
            }));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
