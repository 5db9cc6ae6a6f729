//! What a proxy gets to see, and what it doesn't.
#![allow(clippy::unwrap_used)]

use api::{http, proxy::ProxyVariables};
use testkit::http::{Request, Server};

/// Answers requests in absolute form itself, and refuses to CONNECT.
struct FakeProxy(Server);

impl FakeProxy {
    fn start() -> Self {
        Self(Server::start(|request| {
            let (status, headers, body) = match request.target() {
                _ if request.method() == "CONNECT" => ("403 Forbidden", "", ""),
                "http://service.invalid:8090/moved" => ("302 Found", "Location: http://other.invalid/here?a=b\r\n", ""),
                _ => ("200 OK", "", "ok"),
            };
            format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        }))
    }

    fn agent(&self, more: &[(&str, &str)]) -> ureq::Agent {
        let url = format!("http://user:secret@{}", self.0.address);
        let variables = [&[("HTTP_PROXY", url.as_str()), ("HTTPS_PROXY", url.as_str())], more].concat();
        let configuration = http::configuration(&[], true).unwrap().timeout_global(Some(testkit::wait::LIMIT));
        http::build(configuration, ProxyVariables::from_pairs(&variables))
    }

    /// Each request: which connection it came on, and all of it.
    fn seen(&self) -> Vec<(usize, String)> {
        let text = |request: Request| request.head + &String::from_utf8(request.body).unwrap();
        self.0.requests().into_iter().map(|request| (request.connection, text(request))).collect()
    }
}

const USER: &str = "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n";

#[test]
fn requests_in_the_clear_are_in_absolute_form() {
    let proxy = FakeProxy::start();
    let agent = proxy.agent(&[]);
    for _ in 0..2 {
        let mut response = agent.post("http://service.invalid:8090/v2/x?y=z").send("body").unwrap();
        assert_eq!(response.body_mut().read_to_string().unwrap(), "ok");
    }
    agent.get("http://name:word@service.invalid:8090/moved").call().unwrap();
    let seen: Vec<(usize, String, String)> = proxy
        .seen()
        .into_iter()
        .map(|(number, request)| (number, request.split_inclusive("\r\n").next().unwrap().to_owned(), request))
        .collect();
    let first_lines: Vec<_> = seen.iter().map(|(number, line, _)| (*number, line.as_str())).collect();
    let post = "POST http://service.invalid:8090/v2/x?y=z HTTP/1.1\r\n";
    assert_eq!(
        first_lines,
        [
            (0, post),
            (0, post),
            (1, "GET http://service.invalid:8090/moved HTTP/1.1\r\n"),
            (2, "GET http://other.invalid/here?a=b HTTP/1.1\r\n")
        ],
        "a connection is used again for the same server"
    );
    for (_, line, request) in &seen {
        assert!(request.starts_with(&format!("{line}{USER}")), "{request}");
        assert_eq!(request.matches("http://").count(), 1, "{request}");
    }
}

#[test]
fn requests_over_tls_ask_for_a_tunnel() {
    let proxy = FakeProxy::start();
    let error = proxy.agent(&[]).get("https://service.invalid/x").call().unwrap_err();
    assert_eq!(error.to_string(), "CONNECT proxy failed: proxy server responded 403/403");
    let agent = format!("User-Agent: landfall/{}\r\n", env!("CARGO_PKG_VERSION"));
    let expected = format!(
        "CONNECT service.invalid:443 HTTP/1.1\r\nHost: service.invalid:443\r\n{agent}Proxy-Connection: Keep-Alive\r\n{USER}\r\n"
    );
    assert_eq!(proxy.seen(), [(0, expected)]);
}

#[test]
fn a_redirect_may_lead_past_the_proxy() {
    let server = FakeProxy::start();
    let proxy = FakeProxy::start();
    // The proxy sends us to a name that is an exception, and that nobody knows.
    let agent = proxy.agent(&[("NO_PROXY", ".other.invalid, other.invalid")]);
    agent.get("http://service.invalid:8090/moved").call().unwrap_err();
    assert_eq!(proxy.seen().len(), 1);
    // Loopback is never the proxy's.
    agent.get(server.0.url("/x")).call().unwrap();
    assert_eq!(proxy.seen().len(), 1);
    assert!(server.seen()[0].1.starts_with("GET /x HTTP/1.1\r\n"));
}

#[test]
fn a_proxy_that_is_none_is_named() {
    let variables = ProxyVariables::from_pairs(&[("http_proxy", "socks5://user:secret@127.0.0.1:1")]);
    let agent = http::build(http::configuration(&[], true).unwrap(), variables);
    let error = agent.get("http://service.invalid/").call().unwrap_err().to_string();
    assert_eq!(error, "CONNECT proxy failed: http_proxy names socks5://127.0.0.1:1, which is not an HTTP proxy");
}
