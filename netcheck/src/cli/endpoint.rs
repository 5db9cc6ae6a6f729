//! `landfall netcheck endpoint`.

use super::{Outcome, print, read_request};
use crate::endpoint::{DownloadError, EndpointOptions, Fetched, NO_URL, fetch, judge, table};
use anyhow::Context;
use api::{ApiVipConnectivityRequest, ApiVipConnectivityResponse, RequestHeader, Secret};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::{
    convert::Infallible,
    error::Error,
    io::{Write, stderr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// Fetch the Ignition config that a running cluster gives new workers, to see whether this host can join it.
///
/// The URL is that of the cluster's machine config server. With --ca only that CA is trusted and no proxy is used;
/// otherwise the system's roots are trusted and the proxies of HTTP_PROXY, HTTPS_PROXY and NO_PROXY used. At most 10
/// redirects are followed. The reply has the config as spec 3.2.0 with the few files the service reads, and without units.
///
/// The exit status is 0 even if nothing could be fetched; the reply and stderr say why.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = r#"The request is what the service sends with an api-vip-connectivity-check step, for example:
  {"url":"https://api-int.prod.example.com:22623/config/worker",
   "ca_certificate":"LS0tLS1CRUdJTi...",
   "request_headers":[{"key":"X-Auth","value":"..."}]}

Examples:
  landfall netcheck endpoint \
    http://api-int.prod.example.com:22624/config/worker
  landfall netcheck endpoint --ca root-ca.crt \
    https://api-int.prod.example.com:22623/config/worker
  landfall netcheck endpoint --request request.json --json"#)]
pub(super) struct Endpoint {
    /// URL of the config
    #[arg(value_name = "URL", required_unless_present = "request", conflicts_with = "request")]
    url: Option<String>,
    /// File with the request, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// PEM bundle of the only CA to trust
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    ca: Option<PathBuf>,
    /// Header to send, as NAME:VALUE (may be given several times); visible to every user of this host: for secrets use --header-file
    #[arg(long = "header", value_name = "NAME:VALUE", conflicts_with = "request", value_parser = secret)]
    headers: Vec<Secret>,
    /// File with headers to send, one NAME: VALUE per line
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    header_file: Option<PathBuf>,
    /// File with a bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    token_file: Option<PathBuf>,
    /// Give up after this time, seconds
    #[arg(long, value_name = "N", default_value_t = EndpointOptions::default().timeout.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout_s: u64,
    /// Print the reply as one line of JSON
    #[arg(long)]
    json: bool,
}

fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

impl Endpoint {
    pub(super) fn run(self) -> anyhow::Result<Outcome> {
        let request = match self.request() {
            Ok(request) => request,
            Err(error) => {
                let reply = ApiVipConnectivityResponse { url: NO_URL.to_owned(), ..Default::default() };
                print(self.json, &reply, String::new)?;
                return Err(error);
            }
        };
        let options = EndpointOptions { timeout: Duration::from_secs(self.timeout_s), ..EndpointOptions::default() };
        let (fetched, document) = fetch(&request, &options)?;
        match document {
            Ok(json) => Ok(Outcome::Document(Document { json, fetched, prints_json: self.json })),
            Err(error) => report(self.json, &fetched, &Err(error)).map(Outcome::Done),
        }
    }

    fn request(&self) -> anyhow::Result<ApiVipConnectivityRequest> {
        let Some(path) = &self.request else { return self.plain_request() };
        let request: ApiVipConnectivityRequest =
            serde_json::from_slice(&read_request(path)?).context("the request is not a JSON object with a url")?;
        anyhow::ensure!(!request.url.is_empty(), "validation failure list:\nurl in body is required");
        Ok(request)
    }

    fn plain_request(&self) -> anyhow::Result<ApiVipConnectivityRequest> {
        let header = |header: &str| {
            let (key, value) = header.split_once(':').context("a header must be NAME:VALUE, but one has no colon")?;
            Ok(RequestHeader { key: key.to_owned(), value: value.trim().to_owned() })
        };
        let file = self.header_file.as_ref().map(|path| read_request(path)).transpose()?.unwrap_or_default();
        let file = String::from_utf8(file).ok().context("the file of headers is not text")?;
        let lines = file.lines().filter(|line| !line.trim().is_empty());
        let token = self.token_file.as_ref().map(|path| read_request(path)).transpose()?;
        let token = token.map(String::from_utf8).transpose().context("the token is not text")?;
        Ok(ApiVipConnectivityRequest {
            ca_certificate: self
                .ca
                .as_ref()
                .map(|path| read_request(path).map(|pem| BASE64_STANDARD.encode(pem)))
                .transpose()?,
            ignition_endpoint_token: token.map(|token| token.trim().to_owned()),
            request_headers: self
                .headers
                .iter()
                .map(Secret::expose)
                .chain(lines)
                .map(header)
                .collect::<anyhow::Result<_>>()?,
            url: self.url.clone().unwrap_or_default(),
        })
    }
}

/// What was fetched; another crate decides whether it is an Ignition config.
pub struct Document {
    pub json: Vec<u8>,
    fetched: Fetched,
    prints_json: bool,
}

impl Document {
    /// Prints the result. `config` is the one in the document as the service wants it, or why there is none.
    pub fn print(self, config: Result<String, Box<dyn Error + Send + Sync>>) -> anyhow::Result<ExitCode> {
        report(self.prints_json, &self.fetched, &judge(&self.json, config))
    }
}

fn report(json: bool, fetched: &Fetched, config: &Result<String, DownloadError>) -> anyhow::Result<ExitCode> {
    print(json, &fetched.response(config), || table::render(fetched, config))?;
    if config.is_err() {
        // The text that the service stores, and all of it.
        let _ = writeln!(stderr(), "ignition download error");
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        endpoint: Endpoint,
    }

    #[test]
    fn plain_arguments_make_the_service_s_request() {
        let directory = tempfile::tempdir().unwrap();
        let [ca, token, headers] = ["ca", "token", "headers"].map(|name| directory.path().join(name));
        std::fs::write(&ca, "pem").unwrap();
        std::fs::write(&token, "abc\n").unwrap();
        std::fs::write(&headers, "X-Other: o:1\r\n\nX-Last:l").unwrap();
        let endpoint = Program::parse_from([
            "endpoint",
            "--ca",
            ca.to_str().unwrap(),
            "--token-file",
            token.to_str().unwrap(),
            "--header",
            "X-Key: hidden:x",
            "--header-file",
            headers.to_str().unwrap(),
            "https://h/",
        ])
        .endpoint;
        assert!(!format!("{endpoint:?}").contains("hidden"), "{endpoint:?}");
        let expected = ApiVipConnectivityRequest {
            ca_certificate: Some("cGVt".into()),
            ignition_endpoint_token: Some("abc".into()),
            request_headers: [("X-Key", "hidden:x"), ("X-Other", "o:1"), ("X-Last", "l")]
                .map(|(key, value)| RequestHeader { key: key.into(), value: value.into() })
                .into(),
            url: "https://h/".into(),
        };
        assert!(endpoint.request().unwrap() == expected);
    }

    #[test]
    fn a_request_without_url_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("request");
        std::fs::write(&path, r#"{"url":"","verify_cidr":true}"#).unwrap();
        let endpoint = Program::parse_from(["endpoint", "--request", path.to_str().unwrap()]).endpoint;
        let error = endpoint.request().map(drop).unwrap_err();
        assert_eq!(error.to_string(), "validation failure list:\nurl in body is required");
    }
}
