//! A real Chromium without a window, driven through its DevTools protocol.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use goodput_lab::process::{Running, until};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// No answer of the browser takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Nothing that would leave this machine, and nothing that needs a screen or a user's profile.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
];

/// A browser with one page; ended on drop.
pub struct Browser {
    socket: WebSocket<TcpStream>,
    session: Option<String>,
    calls: u64,
    /// What happened so far, in order.
    events: Vec<Value>,
    _running: Running,
}

/// What a screen reader gets for an element.
#[derive(Debug)]
pub struct Spoken {
    /// Its role.
    pub role: String,
    /// Its accessible name.
    pub name: String,
}

impl Browser {
    /// Starts one with a profile of its own below the folder.
    #[allow(clippy::disallowed_methods, reason = "starts the real Chromium")]
    pub fn start(dir: &Path) -> Result<Self> {
        let profile = dir.join("browser");
        let mut command = Command::new("chromium");
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        let running = Running::start(&mut command, &dir.join("browser.log"))?;
        let file = profile.join("DevToolsActivePort");
        let (port, path) = until("Chromium to say where it listens", PATIENCE, || {
            let text = fs::read_to_string(&file).unwrap_or_default();
            Ok(text.trim().split_once('\n').map(|(port, path)| (port.to_owned(), path.to_owned())))
        })
        .with_context(|| running.log_text())?;
        let stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (socket, _) = tungstenite::client(format!("ws://127.0.0.1:{port}{path}"), stream)?;
        let mut browser = Self { socket, session: None, calls: 0, events: Vec::new(), _running: running };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach)?;
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.calls += 1;
        let id = self.calls;
        let mut request = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(request.to_string()))?;
        loop {
            let mut message = self.read().with_context(|| method.to_owned())?;
            if message["id"] == json!(id) {
                ensure!(message["error"].is_null(), "{method}: {}", message["error"]);
                return Ok(message["result"].take());
            }
            self.events.push(message);
        }
    }

    fn read(&mut self) -> Result<Value> {
        loop {
            if let Message::Text(text) = self.socket.read()? {
                return Ok(serde_json::from_str(&text)?);
            }
        }
    }

    /// Does something that loads a page, and waits until it is loaded.
    fn loading(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = self.events.len();
        act(self)?;
        while !self.events[before..].iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.read().context("waiting for a page to load")?;
            self.events.push(event);
        }
        Ok(())
    }

    /// Loads a page.
    pub fn open(&mut self, url: &str) -> Result<()> {
        self.loading(|browser| browser.call("Page.navigate", json!({ "url": url })).map(drop))
    }

    /// The value of an expression in the page, or what it promises.
    pub fn eval(&mut self, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", params)?;
        ensure!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].take())
    }

    /// A text in the page.
    pub fn text(&mut self, expression: &str) -> Result<String> {
        let value = self.eval(expression)?;
        value.as_str().map(str::to_owned).with_context(|| format!("{expression} is {value}"))
    }

    /// The width of the window, in pixels of CSS, and whether the user prefers dark pages.
    pub fn look(&mut self, width: u32, is_dark: bool) -> Result<()> {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features).map(drop)
    }

    /// Moves the mouse onto the first element that the expression gives, presses and releases its button, and waits for the
    /// page behind it.
    pub fn follow_by_mouse(&mut self, element: &str) -> Result<()> {
        let place = format!(
            "(() => {{ const element = {element}; element.scrollIntoView({{block: 'center'}}); \
             const box = element.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
        );
        let place = self.eval(&place)?;
        self.loading(|browser| {
            for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
                let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
                browser.call("Input.dispatchMouseEvent", event)?;
            }
            Ok(())
        })
    }

    /// Presses and releases a key: `Tab`, `Enter` or an arrow.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "ArrowLeft" => (37, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            _ => bail!("no such key: {key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// Presses a key until the element with the focus fulfils a condition, which sees it as `e`.
    pub fn press_until(&mut self, key: &str, condition: &str) -> Result<()> {
        let is_there = format!("(e => Boolean({condition}))(document.activeElement)");
        for _ in 0..100 {
            if self.eval(&is_there)? == json!(true) {
                return Ok(());
            }
            self.press(key)?;
        }
        bail!("{key} leads to nothing with {condition}")
    }

    /// Presses Enter on what has the focus and waits for the page behind it.
    pub fn follow_by_keyboard(&mut self) -> Result<()> {
        self.loading(|browser| browser.press("Enter"))
    }

    /// What a screen reader gets for the page.
    pub fn spoken(&mut self) -> Result<Vec<Spoken>> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}))?;
        let nodes = tree["nodes"].as_array().into_iter().flatten().filter(|node| node["ignored"] != json!(true));
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        Ok(nodes.map(|node| Spoken { role: text(&node["role"]), name: text(&node["name"]) }).collect())
    }

    /// The whole page as a PNG.
    pub fn screenshot(&mut self, file: &Path) -> Result<()> {
        let answer = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }))?;
        let data = answer["data"].as_str().context("no screenshot")?;
        Ok(fs::write(file, base64::engine::general_purpose::STANDARD.decode(data)?)?)
    }

    /// How many pages of A4 the page is on paper.
    pub fn printed_pages(&mut self) -> Result<usize> {
        let a4 = json!({ "printBackground": true, "paperWidth": 8.27, "paperHeight": 11.69 });
        let answer = self.call("Page.printToPDF", a4)?;
        let pdf = base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().context("no document")?)?;
        // Of the objects of a PDF, a page has this type (ISO 32000-1, 7.7.3.3); the list of them is `/Pages`.
        let pages = pdf.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b"/Type /Page")).count();
        ensure!(pages > 0, "no page in {} bytes", pdf.len());
        Ok(pages)
    }

    /// Warnings and errors of the console, exceptions, requests that failed and requests to elsewhere than `home`: what is
    /// in the page itself (`data:`), such as the browser's own icon of a field for times, leaves nothing.
    pub fn complaints(&self, home: &str) -> Vec<String> {
        let complaint = |event: &Value| {
            let params = &event["params"];
            let is_bad = match event["method"].as_str()? {
                "Runtime.exceptionThrown" | "Network.loadingFailed" => true,
                "Runtime.consoleAPICalled" => matches!(params["type"].as_str(), Some("error" | "warning" | "assert")),
                "Log.entryAdded" => matches!(params["entry"]["level"].as_str(), Some("error" | "warning")),
                "Network.responseReceived" => params["response"]["status"].as_u64() >= Some(400),
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap_or_default();
                    ![home, "data:", "about:blank"].iter().any(|own| url.starts_with(own))
                }
                _ => false,
            };
            is_bad.then(|| event.to_string())
        };
        self.events.iter().filter_map(complaint).collect()
    }
}
