//! An exchange as the tests compare it: seen now, or recorded earlier from the real programs.

use super::relay::Pair;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

const PREFIX: &str = "/api/assisted-install";
const UUID_LENGTH: usize = 36;

#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// Of a recorded one its directory and file.
    pub name: String,
    pub method: String,
    /// Below the service's prefix.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub request: Side,
    /// None where the connection ended before it.
    pub status: Option<u16>,
    pub response: Side,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    /// JSON in its strings is JSON here.
    pub body: Value,
    /// As it was sent.
    pub raw: Value,
}

impl Exchange {
    pub(crate) fn seen(number: usize, pair: &Pair) -> Self {
        let response = pair.response.as_ref();
        Self {
            status: response.and_then(|message| message.status()),
            response: response.map_or_else(Side::default, |message| side(&message.headers, &message.body)),
            ..Self::new(
                format!("exchange {}", number + 1),
                &pair.request.first_line,
                side(&pair.request.headers, &pair.request.body),
            )
        }
    }

    fn recorded(file: &Path) -> Self {
        let raw: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let recorded_side = |what: &str| {
            let headers: Vec<(String, String)> = serde_json::from_value(raw[what]["headers"].clone()).unwrap();
            match raw[what]["body"]["_base64"].as_str() {
                Some(text) => side(&headers, &BASE64_STANDARD.decode(text).unwrap()),
                None => Side { body: unnested(raw[what]["body"].clone()), ..side(&headers, b"") },
            }
        };
        let name = file.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>();
        Self {
            status: raw["response"]["status"].as_u64().map(|status| status.try_into().unwrap()),
            response: recorded_side("response"),
            ..Self::new(
                format!("{}/{}", name[1], name[0]),
                raw["request"]["line"].as_str().unwrap(),
                recorded_side("request"),
            )
        }
    }

    fn new(name: String, line: &str, request: Side) -> Self {
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |text: &str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            name,
            method,
            path: path.strip_prefix(PREFIX).unwrap_or(path).to_owned(),
            query: query.split('&').filter_map(pair).collect(),
            request,
            status: None,
            response: Side::default(),
        }
    }

    pub(crate) fn is(&self, method: &str, path_end: &str) -> bool {
        self.method == method && self.path.ends_with(path_end)
    }

    /// What it is for: exchanges of one kind are comparable.
    pub(crate) fn kind(&self) -> String {
        let body = &self.request.body;
        let end = self.path.rsplit('/').next().unwrap();
        let of = |part: &str| {
            self.query.iter().find(|(name, _)| name == part).map_or(String::new(), |(_, value)| format!(" {value}"))
        };
        match (self.method.as_str(), end) {
            ("POST", "hosts") => "register".into(),
            ("GET", "instructions") => "poll".into(),
            ("POST", "instructions") => {
                let failed = body["exit_code"].as_i64().is_some_and(|code| code != 0);
                let kind = body["step_type"].as_str().unwrap_or("?");
                format!("reply {kind}{}", if failed { ", failed" } else { "" })
            }
            ("PUT", "progress") if self.path.starts_with("/v2/clusters/") => {
                format!("progress of the cluster, {}", body["finalizing_stage"].as_str().unwrap_or("?"))
            }
            ("PUT", "progress") => {
                let stage = body["current_stage"].as_str().unwrap_or("?");
                match body["progress_info"].as_str() {
                    Some(info) if info.ends_with('%') => format!("progress {stage} …%"),
                    // Each failure has words of its own.
                    Some(info) if stage != "Failed" => format!("progress {stage}, {info}"),
                    _ => format!("progress {stage}"),
                }
            }
            ("PUT", "logs-progress") if self.path.starts_with("/v2/clusters/") => "logs of the controller".into(),
            ("PUT", "logs-progress") => format!("logs {}", body["logs_state"].as_str().unwrap_or("?")),
            ("POST", "logs") => format!("upload of logs{}", of("logs_type")),
            ("GET", "ignition") => "download of the host's ignition".into(),
            ("GET", "files") => format!("download{}", of("file_name")),
            (method, _) if self.path.starts_with("/v2/clusters/") && self.path.matches('/').count() == 3 => {
                let whole = !self.query.iter().any(|(name, value)| name == "exclude-hosts" && value == "true");
                format!("{method} cluster{}", if whole { "" } else { " without hosts" })
            }
            (method, end) => format!("{method} {end}"),
        }
    }

    /// Infra-env, host and cluster that it names, with the words that stand for them in a comparison.
    pub(crate) fn identities(&self) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        let mut parts = self.path.split('/');
        while let Some(part) = parts.next() {
            let word = match part {
                "infra-envs" | "infra-env" => "{infra-env}",
                "hosts" => "{host}",
                "clusters" => "{cluster}",
                _ => continue,
            };
            found.extend(parts.next().map(|id| (id.to_owned(), word)));
        }
        let ids = [(&self.request.body["host_id"], "{host}"), (&self.response.body["cluster_id"], "{cluster}")];
        found.extend(ids.into_iter().filter_map(|(id, word)| Some((id.as_str()?.to_owned(), word))));
        found.retain(|(id, _)| id.len() == UUID_LENGTH);
        found
    }
}

fn side(headers: &[(String, String)], body: &[u8]) -> Side {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
    let kind = headers.iter().find(|(name, _)| name == "content-type").map_or("", |(_, value)| value.as_str());
    let raw = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) if body.is_empty() => Value::Null,
        Err(_) if kind.starts_with("multipart/") => parts(body),
        Err(_) => json!({ "bytes": body.len() }),
    };
    Side { headers, body: unnested(raw.clone()), raw }
}

/// JSON in strings made the value it stands for, so that its leaves can be compared.
fn unnested(value: Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(['{', '[']) => match serde_json::from_str(&text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => unnested(inner),
            _ => Value::String(text),
        },
        Value::Array(items) => items.into_iter().map(unnested).collect(),
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields.into_iter().map(|(name, value)| (name, unnested(value))).collect();
            Value::Object(fields)
        }
        other => other,
    }
}

/// The heads of the parts of a form, and how many bytes each has.
fn parts(body: &[u8]) -> Value {
    let end = body.windows(2).position(|pair| pair == b"\r\n").unwrap_or(body.len());
    let boundary = &body[..end];
    let starts = body.windows(boundary.len().max(1)).enumerate().filter(|(_, window)| *window == boundary);
    let starts: Vec<usize> = starts.map(|(at, _)| at + boundary.len()).collect();
    let part = |(index, start): (usize, &usize)| {
        let until = starts.get(index + 1).map_or(body.len(), |next| next - boundary.len());
        let part = &body[*start..until];
        let split = part.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&part[..split]).trim().to_lowercase();
        Some(
            json!({ "head": head.lines().collect::<Vec<_>>(), "bytes": part.len() - split - 6, "starts": &part[split + 4..][..2] }),
        )
    };
    json!({ "parts": starts.iter().enumerate().filter_map(part).collect::<Vec<_>>() })
}

/// The recordings of a directory below `wire`, in order.
pub(crate) fn recordings(wire: &Path, directory: &str) -> Vec<Exchange> {
    let entries = fs::read_dir(wire.join(directory)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| Exchange::recorded(file)).collect()
}

#[test]
fn a_form_is_told_by_the_heads_of_its_parts() {
    let form = b"--x\r\nContent-Disposition: form-data; name=\"upfile\"\r\nContent-Type: application/x-gzip\r\n\r\n\x1f\x8bdata\r\n--x--\r\n";
    let head = ["content-disposition: form-data; name=\"upfile\"", "content-type: application/x-gzip"];
    assert_eq!(parts(form), json!({"parts": [{"head": head, "bytes": 6, "starts": [0x1f, 0x8b]}]}));
    assert_eq!(parts(b""), json!({"parts": []}));
}

#[test]
fn json_in_strings_is_compared_as_json() {
    assert_eq!(unnested(json!({"args": ["{\"a\":\"[1]\"}", "480.00"]})), json!({"args": [{"a": [1]}, "480.00"]}));
    assert_eq!(unnested(json!("[not json")), json!("[not json"));
}
