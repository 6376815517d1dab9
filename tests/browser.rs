//! A headless Chromium (Debian's `chromium`), controlled over two pipes with its DevTools protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::eventually;
use crate::program::die_with_parent;

/// How long a page may take to reach the state that a test expects, on a busy machine.
pub const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    next: u64,
    session: Option<String>,
    _profile: TempDir,
}

impl Browser {
    /// A browser on an empty page.
    pub fn start() -> Browser {
        let profile = tempfile::Builder::new().prefix("leafd-browser-").tempdir().unwrap();
        let mut command = Command::new("sh");
        // The protocol's pipes are descriptors 3 and 4. Root can't use the sandbox, and the page comes from
        // this test.
        command
            .arg("-c")
            .arg("exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1")
            .arg("sh");
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--no-first-run", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = die_with_parent(&mut command).spawn().unwrap();
        let requests = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut browser =
            Browser { child, requests, answers, next: 0, session: None, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        browser
    }

    /// Makes one call of the protocol.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut request = json!({"id": self.next, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.requests.write_all(&bytes).expect("Debian's package chromium");
        loop {
            let mut answer = Vec::new();
            let length = self.answers.read_until(0, &mut answer).unwrap();
            assert!(length > 0, "the browser has ended; is Debian's package chromium installed?");
            answer.pop();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Opens another address.
    #[track_caller]
    pub fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({"url": address}));
    }

    /// The value of a JavaScript expression.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        // A page that is still loading has no elements.
        let safe = format!(
            "(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"
        );
        let shown = std::panic::Location::caller();
        eventually(&format!("{shown}: {expression}"), SHOWN_WITHIN, || {
            let is_so = self.evaluate(&safe) == true;
            if !is_so {
                std::thread::sleep(Duration::from_millis(50));
            }
            is_so.then_some(())
        });
    }

    /// The text that the page shows.
    #[track_caller]
    pub fn text(&mut self) -> String {
        self.evaluate("document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Sets the page's width in pixels, and a dark or light theme.
    pub fn look(&mut self, width: u32, theme: &str) {
        let size = json!({"width": width, "height": 500, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Shows a text as a terminal would, in the colours of the theme.
    pub fn show_text(&mut self, text: &str) {
        let page = "<style>:root { color-scheme: light dark } body { margin: 0 }\
                    pre { font: 14px/1.4 'DejaVu Sans Mono', monospace; margin: 1em; width: max-content }</style><pre></pre>";
        self.evaluate(&format!(
            "document.documentElement.innerHTML = {}, document.querySelector('pre').textContent = {}",
            json!(page),
            json!(text)
        ));
    }

    /// Saves pictures of the whole page in the folder that LEAFD_TEST_PICTURES names, wide and narrow, light and dark,
    /// for people to look at and for the documents.
    pub fn keep_pictures(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("LEAFD_TEST_PICTURES") else { return };
        self.call("Emulation.setScrollbarsHidden", json!({"hidden": true}));
        for (kind, width) in [("", 1_000), ("-narrow", 380)] {
            for theme in ["light", "dark"] {
                self.look(width, theme);
                // Waits until all animations have ended.
                std::thread::sleep(Duration::from_millis(1_500));
                let file = Path::new(&folder).join(format!("{name}{kind}-{theme}.webp"));
                std::fs::write(file, self.picture()).unwrap();
            }
        }
    }

    /// The whole page as a WebP picture, which takes a third of the size of PNG.
    fn picture(&mut self) -> Vec<u8> {
        let whole = json!({"format": "webp", "quality": 80, "captureBeyondViewport": true});
        let encoded = self.call("Page.captureScreenshot", whole)["data"].take();
        let mut command = Command::new("base64");
        command.arg("--decode").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut decoder = command.spawn().unwrap();
        let mut input = decoder.stdin.take().unwrap();
        let encoded = encoded.as_str().unwrap().to_owned();
        let writer = std::thread::spawn(move || input.write_all(encoded.as_bytes()).unwrap());
        let output = decoder.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success());
        output.stdout
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser's own processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
