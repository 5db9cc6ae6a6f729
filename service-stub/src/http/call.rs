//! A request as handlers see it: parameters parsed, body read.

use super::{
    Refusal,
    body::{BodyShape, parse},
};
use crate::auth::{Caller, Watches};
use crate::model::HostKey;
use api::{ClusterId, HostId, InfraEnvId};
use axum::{
    body::Bytes,
    extract::RawPathParams,
    http::{Extensions, HeaderMap, HeaderName, Uri, request::Parts},
};
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use uuid::Uuid;

#[derive(Debug)]
pub struct Call {
    /// Path parameters by name.
    pub(crate) path: Vec<(String, String)>,
    /// Query parameters in order.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    /// Body, whose size was limited on reading.
    pub(crate) body: Bytes,
    /// The caller.
    pub(crate) caller: Caller,
    /// Whether the caller may only read: links to anything else are hidden.
    pub(crate) watches: bool,
    /// Where it came from.
    pub(crate) peer: Option<IpAddr>,
}

/// Path and query of a streaming request, as handlers see them.
pub(crate) fn call_of(params: &RawPathParams, parts: &Parts) -> Result<Call, Refusal> {
    let path = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (query, headers, caller) = (Call::parse_query(&parts.uri)?, parts.headers.clone(), caller(&parts.extensions));
    Ok(Call { path, query, headers, body: Bytes::new(), caller, watches: watches(&parts.extensions), peer: None })
}

/// The caller, if authenticated.
pub(crate) fn caller(extensions: &Extensions) -> Caller {
    extensions.get().copied().unwrap_or_default()
}

/// Whether the caller may only read.
pub(crate) fn watches(extensions: &Extensions) -> bool {
    extensions.get::<Watches>().is_some()
}

impl Call {
    /// A request of our own.
    pub(crate) fn internal(path: &[(&str, String)], body: &serde_json::Value) -> Self {
        let path = path.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let (headers, body) = (HeaderMap::new(), body.to_string().into());
        Self { path, query: Vec::new(), headers, body, caller: Caller::Everyone, watches: false, peer: None }
    }

    /// Query parameters of a URI; a query that can't be decoded is refused.
    pub(crate) fn parse_query(uri: &Uri) -> Result<Vec<(String, String)>, Refusal> {
        axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map(|query| query.0)
            .map_err(|error| Refusal::bad_request(format!("cannot decode the query: {error}")))
    }

    /// The infra-env named by the path.
    pub(crate) fn infra_env_id(&self) -> Result<InfraEnvId, Refusal> {
        self.path_uuid("infra_env_id").map(InfraEnvId)
    }

    /// The host named by the path.
    pub(crate) fn host_key(&self) -> Result<HostKey, Refusal> {
        Ok(HostKey { infra_env: self.infra_env_id()?, host: self.path_uuid("host_id").map(HostId)? })
    }

    /// The cluster named by the path.
    pub(crate) fn cluster_id(&self) -> Result<ClusterId, Refusal> {
        self.path_uuid("cluster_id").map(ClusterId)
    }

    /// A path parameter as it was written.
    pub(crate) fn path(&self, name: &str) -> &str {
        self.path.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    fn path_uuid(&self, name: &str) -> Result<Uuid, Refusal> {
        uuid(name, "path", self.path(name))
    }

    /// A query parameter that is present and not empty.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// A query parameter that must be one of a few.
    pub(crate) fn query_one_of(&self, name: &str, allowed: &[&str]) -> Result<&str, Refusal> {
        let value = self.query(name).ok_or_else(|| Refusal::bad_request(format!("{name} in query is required")))?;
        if allowed.contains(&value) {
            return Ok(value);
        }
        Err(Refusal::bad_request(format!("{name} in query should be one of [{}]", allowed.join(" "))))
    }

    /// A query parameter that must be an identifier, if present.
    pub(crate) fn query_uuid(&self, name: &str) -> Result<Option<Uuid>, Refusal> {
        self.query(name).map(|value| uuid(name, "query", value)).transpose()
    }

    /// A query parameter that must be a number, if present.
    pub(crate) fn query_number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let number = |value: &str| {
            value.parse().map_err(|_| {
                Refusal::bad_request(format!("{name} in query must be of type int64: {:?}", shortened(value)))
            })
        };
        self.query(name).map(number).transpose()
    }

    /// A boolean query parameter: words for yes in any case, as clients write `True`; anything else is no.
    pub(crate) fn query_flag(&self, name: &str) -> bool {
        const YES: [&str; 10] = ["true", "1", "yes", "ok", "y", "on", "selected", "checked", "t", "enabled"];
        self.query(name).is_some_and(|value| YES.iter().any(|yes| value.eq_ignore_ascii_case(yes)))
    }

    /// A header's text; empty if it is absent or not text.
    pub(crate) fn header(&self, name: &HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The request's id, as the client gave it: at most 64 characters of it, as it is stored with events.
    pub(crate) fn request_id(&self) -> &str {
        let id = self.headers.get("x-request-id").and_then(|value| value.to_str().ok()).unwrap_or("");
        if id.len() <= 64 { id } else { "" }
    }

    /// The body as one JSON text.
    pub(crate) fn json_text(&self, name: &str) -> Result<String, Refusal> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Err(Refusal::bad_request(format!("{name} in body is required")));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::bad_request(format!("parsing {name} body from \"\" failed, because {error}")))
    }

    /// The body as a document of our own API.
    pub(crate) fn own_json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::bad_request(format!("the body is not what is expected: {error}")))
    }

    /// The body as a document of the given shape.
    pub(crate) fn json<T: DeserializeOwned>(&self, shape: &BodyShape) -> Result<T, Refusal> {
        parse(shape, &self.body)
    }
}

/// Text as error messages show it, truncated.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// An identifier: 32 hexadecimal digits with or without the four hyphens, as the real service accepts it.
pub(crate) fn uuid(name: &str, place: &str, text: &str) -> Result<Uuid, Refusal> {
    let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') && matches!(text.len(), 32 | 36);
    let parsed = plain.then(|| Uuid::try_parse(text).ok()).flatten();
    parsed.ok_or_else(|| Refusal::bad_request(format!("{name} in {place} must be of type uuid: {:?}", shortened(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_identifiers_are_taken() {
        assert!(uuid("x", "path", "7e5ff6df-e038-4103-bbb2-90433ded3e50").is_ok());
        assert!(uuid("x", "path", "7E5FF6DFe0384103bbb290433ded3e50").is_ok());
        for bad in
            ["", "notauuid", "{7e5ff6df-e038-4103-bbb2-90433ded3e50}", "urn:uuid:7e5ff6df-e038-4103-bbb2-90433ded3e50"]
        {
            assert!(uuid("x", "path", bad).is_err(), "{bad}");
        }
    }
}
