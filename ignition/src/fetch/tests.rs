//! Time that runs out.

use super::*;
use std::sync::{Arc, Condvar, Mutex};
use testkit::http::{Server, cut, ok, reply};

/// Keeps a server from answering until it is open.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        drop(self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

#[test]
fn time_is_up_when_the_config_says_so() {
    let (clock, gate) = (Clock::simulated(), Arc::new(Gate::default()));
    let (time, shut) = (clock.clone(), gate.clone());
    let server = Server::start(move |request| match request.target() {
        "/late" => {
            shut.pass();
            ok("late")
        }
        "/hour" => {
            time.sleep(Duration::from_secs(3600));
            ok("late")
        }
        "/second" => {
            time.sleep(Duration::from_secs(1));
            reply("302 Found", "Location: /late\r\n", "")
        }
        "/busy" => reply("503 Service Unavailable", "", ""),
        _ => cut("200 OK", "", 9, "slow"),
    });
    let configured = |timeouts: &str, retries| {
        let mut fetcher = Fetcher::new(FetchOptions { retries, clock: clock.clone(), ..FetchOptions::default() });
        let config = format!(r#"{{"ignition":{{"version":"3.0.0","timeouts":{{{timeouts}}}}}}}"#);
        let (config, ..) = crate::parse(config.as_bytes()).unwrap();
        fetcher.configure(&config.ignition).unwrap();
        fetcher
    };
    let fetch = |fetcher: &Fetcher, path| {
        let url = server.url(path);
        let location = Location { source: &url, compression: None, headers: &[], hash: None };
        fetcher.fetch(&location).map(Cow::into_owned).map_err(|error| format!("{:#}", anyhow::Error::new(error)))
    };
    let mut hasty = configured("\"httpResponseHeaders\":1", 0);
    assert_eq!(hasty.settings.header_timeout, Some(Duration::from_secs(1)));
    // The client's own timeouts are real.
    hasty.set(Settings { header_timeout: Some(Duration::from_millis(20)), ..hasty.settings.clone() });
    let late = fetch(&hasty, "/late").unwrap_err();
    assert!(late.contains("the request failed: timeout: receive response"), "{late}");
    let total = "not received after 1 s, the limit set by timeouts.httpTotal";
    let busy = fetch(&configured("\"httpTotal\":1", 100), "/busy").unwrap_err();
    assert!(busy.ends_with(&format!("{total}: failed to fetch resource (HTTP status 503)")), "{busy}");
    let late = fetch(&configured("\"httpTotal\":1,\"httpResponseHeaders\":0", 0), "/second").unwrap_err();
    assert!(late.ends_with(total), "{late}");
    assert_eq!(fetch(&configured("\"httpTotal\":0", 0), "/hour"), Ok(b"late".to_vec()));
    gate.open();
}
