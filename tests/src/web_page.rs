//! A web page in Chromium, as its user sees it, through the `DevTools` protocol.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket, client};

use crate::child::Child;
use crate::chromium::CHROMIUM;
use crate::field::TestSite;
use crate::wait::until;
use crate::worker::GLANCE;

/// Longest wait for Chromium. It bounds a hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// A page in a browser, closed on drop.
#[derive(Debug)]
pub struct WebPage {
    chromium: Child,
    socket: WebSocket<TcpStream>,
    /// Session of the page; empty before it is attached.
    session: Value,
    number: u64,
}

impl WebPage {
    /// Opens a page.
    pub fn open(site: &TestSite, url: &str) -> Self {
        let profile = site.folder().join("page-profile");
        let mut command = Command::new(CHROMIUM);
        command.args(["--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        let chromium = Child::start("page", site.folder(), &mut command);
        // The file has the port and the path of the protocol.
        let file = profile.join("DevToolsActivePort");
        let (port, path) = until("Chromium listens", || {
            let text = fs::read_to_string(&file).ok()?;
            let (port, path) = text.split_once('\n')?;
            Some((port.parse::<u16>().ok()?, path.trim().to_owned()))
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stream = TcpStream::connect(address).expect("Chromium accepts connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes the option");
        let (socket, _) = client(format!("ws://{address}{path}"), stream).expect("Chromium speaks WebSocket");
        let mut page = Self { chromium, socket, session: Value::Null, number: 0 };
        let target = page.does("Target.createTarget", &json!({ "url": url }))["targetId"].clone();
        let attached = page.does("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        page.session = attached["sessionId"].clone();
        page
    }

    /// Sets the width of the window, and whether the user prefers dark colours.
    pub fn look(&mut self, width: u32, dark: bool) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.does("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.does("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Returns the value of a JavaScript expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let mut answer = self.does("Runtime.evaluate", &parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until a JavaScript expression is true.
    pub fn until(&mut self, expression: &str) {
        let start = Instant::now();
        while self.value(expression) != true {
            let shown = self.value("document.body?.innerText");
            assert!(start.elapsed() < PATIENCE, "waited in vain: {expression}; the page shows {shown}");
            sleep(GLANCE);
        }
    }

    /// Sends a command of the protocol. Returns its result.
    fn does(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut command = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_null() {
            command["sessionId"] = self.session.clone();
        }
        self.socket.send(Message::text(command.to_string())).expect("Chromium listens");
        loop {
            let message = self.socket.read().expect("Chromium answers in time").into_data();
            let mut answer: Value = serde_json::from_slice(&message).expect("the protocol uses JSON");
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }
}

impl Drop for WebPage {
    fn drop(&mut self) {
        // It ends its children, which `kill -9` would leave for a while.
        self.chromium.end(Signal::TERM);
    }
}
