//! Recorded exchanges, as they are replayed.

use crate::common::{Answer, Running};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::path::Path;

pub(crate) struct Exchange {
    pub number: u32,
    /// When it was asked, seconds.
    pub time: f64,
    pub answered: f64,
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub status: u16,
    pub answer: Value,
    pub answer_headers: Vec<(String, String)>,
}

impl Exchange {
    /// Path and query without what changes from one recording to another.
    pub(crate) fn what(&self) -> String {
        let path = self.target.split('?').next().unwrap();
        let parts = path.split('/').skip(3).map(|part| if part.parse::<uuid::Uuid>().is_ok() { "*" } else { part });
        format!("{} {}", self.method, parts.collect::<Vec<_>>().join("/"))
    }

    pub(crate) fn is_poll(&self) -> bool {
        self.method == "GET" && self.target.split('?').next().unwrap().ends_with("/instructions")
    }

    /// The steps of an answer, by type.
    pub(crate) fn steps(&self) -> Vec<&Value> {
        self.answer["instructions"].as_array().into_iter().flatten().collect()
    }

    pub(crate) fn gives(&self, kind: &str) -> bool {
        self.steps().iter().any(|step| step["step_type"] == kind)
    }

    /// The part of the path behind a name.
    pub(crate) fn id(&self, name: &str) -> Option<&str> {
        let mut parts = self.target.split(['/', '?']);
        parts.by_ref().find(|part| *part == name)?;
        parts.next()
    }
}

fn headers(list: &Value) -> Vec<(String, String)> {
    let pairs = list.as_array().unwrap().iter();
    pairs.map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned())).collect()
}

fn bytes(body: &Value) -> Vec<u8> {
    match body {
        Value::Null => Vec::new(),
        Value::Object(fields) if fields.contains_key("_base64") => {
            BASE64_STANDARD.decode(fields["_base64"].as_str().unwrap()).unwrap()
        }
        body => body.to_string().into_bytes(),
    }
}

pub(crate) fn exchanges(folder: &Path) -> Vec<Exchange> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let load = |path: &std::path::PathBuf| {
        let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let (request, response) = (&document["request"], &document["response"]);
        let mut line = request["line"].as_str().unwrap().split(' ');
        // How the bytes travelled is the client's business.
        let skipped = ["host", "content-length", "transfer-encoding", "accept-encoding", "connection"];
        let mut sent = headers(&request["headers"]);
        sent.retain(|(name, _)| !skipped.contains(&name.to_lowercase().as_str()));
        Exchange {
            number: document["seq"].as_u64().unwrap().try_into().unwrap(),
            time: document["t"].as_f64().unwrap(),
            answered: document["t"].as_f64().unwrap() + document["ms"].as_f64().unwrap() / 1000.0,
            method: line.next().unwrap().to_owned(),
            target: line.next().unwrap().to_owned(),
            headers: sent,
            body: bytes(&request["body"]),
            status: response["status"].as_u64().unwrap().try_into().unwrap(),
            answer: response["body"].clone(),
            answer_headers: headers(&response["headers"]),
        }
    };
    // Of requests that overlap, the answers tell which came first.
    let mut all: Vec<Exchange> = paths.iter().map(load).collect();
    all.sort_by(|a, b| a.answered.total_cmp(&b.answered));
    all
}

pub(crate) fn replay(running: &Running, exchange: &Exchange) -> Answer {
    let mut headers: Vec<(&str, &str)> =
        exchange.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // The client of some recordings asked for files as JSON, and a proxy changed that on the way.
    if exchange.status == 200 && exchange.target.contains("/downloads/") {
        for (name, value) in &mut headers {
            if name.eq_ignore_ascii_case("accept") && *value == "application/json" {
                *value = "application/octet-stream";
            }
        }
    }
    running.request(&exchange.method, &exchange.target, &headers, &exchange.body)
}
