//! The page in a real browser: Chromium without a window, driven over its pipe.

use super::World;
use api::{HostStage, HostUpdateParams};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// A phone's width in points.
const PHONE: u32 = 390;

/// Where .ci/vm-packages has unpacked it, or what LANDFALL_CHROMIUM names: the root of such a tree.
fn tree() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    let tree = std::env::var_os("LANDFALL_CHROMIUM").map_or_else(|| target.join("vm/packages/chromium"), PathBuf::from);
    if tree.join("usr/lib/chromium/chromium-headless-shell").is_file() {
        return Some(tree);
    }
    testkit::skip::because(format_args!("there is no browser at {}: .ci/setup fetches it", tree.display()));
    None
}

/// A browser with one page; it ends when dropped.
struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
    session: Option<String>,
    events: Vec<Value>,
    _home: tempfile::TempDir,
}

impl Browser {
    fn start(tree: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        let fonts = home.path().join("fonts.conf");
        let config = "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\"><fontconfig>\
            <dir>{tree}/usr/share/fonts</dir><cachedir>{home}/fonts</cachedir></fontconfig>";
        let config = config.replace("{tree}", tree.to_str().unwrap()).replace("{home}", home.path().to_str().unwrap());
        std::fs::write(&fonts, config).unwrap();
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio"];
        let libraries = libraries.map(|path| tree.join(path).to_str().unwrap().to_owned()).join(":");
        // It talks on descriptors 3 and 4, which a shell can make of what a child has anyway.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"])
            .arg(tree.join("usr/lib/chromium/chromium-headless-shell"))
            .args(["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
            .env("LD_LIBRARY_PATH", libraries)
            .env("FONTCONFIG_FILE", fonts)
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self { child, to, from, next: 0, session: None, events: Vec::new(), _home: home };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": &params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(message.to_string().as_bytes()).and_then(|()| self.to.write_all(b"\0")).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert!(bytes.pop().is_some(), "the browser is gone");
            let message: Value = serde_json::from_slice(&bytes).unwrap();
            if message["id"] == self.next {
                // The page follows what happens by loading itself anew, at any moment.
                if message["error"]["message"] == "Inspected target navigated or closed" {
                    std::thread::sleep(Duration::from_millis(50));
                    return self.call(method, params);
                }
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    fn until(&mut self, expression: &str) {
        if !testkit::wait::comes(|| self.evaluate(expression) == true) {
            let seen = self.evaluate("document.body ? document.body.innerText : ''");
            panic!("never: {expression}\n{}", seen.as_str().unwrap_or_default());
        }
    }

    /// Waits for a text on the page.
    fn sees(&mut self, text: &str) {
        self.until(&format!("document.readyState === 'complete' && document.body.innerText.includes({})", json!(text)));
    }

    fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        self.until(&format!("location.href === {} && document.readyState === 'complete'", json!(url)));
    }

    /// Clicks what a selector finds, and waits for the page it leads to.
    fn follow(&mut self, selector: &str) {
        self.evaluate("window.here = true");
        self.evaluate(&format!("document.querySelector({}).click()", json!(selector)));
        self.until("window.here !== true && document.readyState === 'complete'");
    }

    fn width(&mut self, width: u32) {
        let params = json!({"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width <= PHONE});
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    fn screenshot(&mut self, directory: &Path, name: &str) {
        let mut params = json!({"format": "png", "captureBeyondViewport": true});
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        params["clip"] = clip;
        let data = self.call("Page.captureScreenshot", params)["data"].clone();
        std::fs::write(directory.join(format!("{name}.png")), STANDARD.decode(data.as_str().unwrap()).unwrap())
            .unwrap();
    }

    fn messages(&self, method: &str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |event| event["method"] == method).map(|event| &event["params"])
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn screenshots() -> PathBuf {
    let default = || Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    let directory = std::env::var_os("LANDFALL_SCREENSHOTS").map_or_else(default, PathBuf::from);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn a_person_installs_a_rack_in_a_browser() {
    const HOSTILE: &str = "<img src=x onerror=alert(1)>";
    let Some(tree) = tree() else { return };
    let pictures = screenshots();
    let mut world = World::new(3, 3);
    world.machines[0].name = HOSTILE.into();
    world.discover_all();
    let url = world.running.url.clone();
    let mut browser = Browser::start(&tree);
    browser.width(1280);

    browser.open(&format!("{url}/"));
    browser.sees("Infra-envs");
    browser.screenshot(&pictures, "overview");
    browser.follow("#clusters td a");
    browser.sees("block the installation");
    browser.sees(HOSTILE);
    assert_eq!(browser.evaluate("document.images.length"), 0);
    let id = world.machines[0].id;
    browser.follow(&format!("#hosts a[href$='{id}']"));
    browser.sees("Disk is removable");
    assert_eq!(browser.evaluate("document.querySelector('h1').textContent"), HOSTILE);
    browser.screenshot(&pictures, "host");

    // What changes elsewhere shows without a reload.
    browser.sees("live");
    browser.evaluate("window.same = true");
    let named = HostUpdateParams { host_name: Some("node-1".into()), ..HostUpdateParams::default() };
    world.running.client().update_host(world.infra_env.id, id, &named).unwrap();
    browser.until(
        "document.title.startsWith('Host node-1') && document.querySelector('#state').innerText.includes('known')",
    );
    assert_eq!(browser.evaluate("window.same"), true);

    browser.follow("header nav a[href^='/ui/clusters/']");
    browser.sees("ready");
    browser.follow(".button.install");
    browser.sees("will be overwritten");
    assert_eq!(world.status(), "ready", "asked, not done");
    browser.screenshot(&pictures, "question");
    browser.follow("form button");
    world.running.monitor();
    browser.until("document.querySelector('#state').innerText.includes('installing')");
    assert_eq!(world.status(), "installing");
    browser.sees("live");
    browser.evaluate("window.same = true");
    browser.screenshot(&pictures, "install-1-begun");
    for machine in world.machines.iter().take(2) {
        world.write_disk(machine);
    }
    let last = world.machines.last().unwrap();
    world.put(last, HostStage::StartingInstallation, "").unwrap();
    world.put(last, HostStage::WritingImageToDisk, "42%").unwrap();
    browser.sees("Writing image to disk: 42%");
    browser.sees("Rebooting");
    browser.screenshot(&pictures, "install-2-under-way");
    world.put(last, HostStage::Rebooting, "").unwrap();
    for machine in &world.machines {
        world.follow_pointer(machine);
        world.put(machine, HostStage::Joined, "").unwrap();
        world.put(machine, HostStage::Done, "").unwrap();
    }
    browser.sees("Cluster is installed");
    browser.until("document.querySelectorAll('#hosts progress[value=\"100\"]').length === 3");
    assert_eq!(browser.evaluate("window.same"), true, "it was never loaded anew");
    browser.screenshot(&pictures, "install-3-installed");

    let cluster = format!("{url}/ui/clusters/{}", world.cluster.id);
    let host = format!("{url}/ui/infra-envs/{}/hosts/{id}", world.infra_env.id);
    browser.width(PHONE);
    for (page, name) in
        [(format!("{url}/"), "phone-overview"), (cluster.clone(), "phone-cluster"), (host, "phone-host")]
    {
        browser.open(&page);
        let widest = browser.evaluate("document.documentElement.scrollWidth");
        assert!(widest.as_u64().unwrap() <= u64::from(PHONE), "{page} is {widest} wide");
        browser.screenshot(&pictures, name);
    }
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.call("Emulation.setEmulatedMedia", dark);
    browser.screenshot(&pictures, "phone-dark");

    for method in ["Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"] {
        let wrong: Vec<&Value> =
            browser.messages(method).filter(|entry| entry["entry"]["level"] != "verbose").collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    for request in browser.messages("Network.requestWillBeSent") {
        let asked = request["request"]["url"].as_str().unwrap();
        assert!(asked.starts_with(&format!("{url}/")), "a request to elsewhere: {asked}");
    }

    browser.width(1280);
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.call("Page.navigate", json!({"url": cluster}));
    browser.sees("Cluster is installed");
    assert_eq!(browser.evaluate("document.getElementById('live').textContent"), "", "no script ran");
    browser.sees("node-2");
}
