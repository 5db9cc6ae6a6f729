//! What steps print, taken as the published service takes it: fields that are absent or null are empty, unknown ones are dropped,
//! and of a list the entries that say nothing are left out.

use crate::http::{Refusal, body::wrong_type};
use api::{
    ConnectivityReport, ContainerImageAvailability, DhcpAllocationResponse, DiskSpeedCheckResponse, HostId, VerifiedVip,
};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// An inventory of 15000 disks has 60000, a connectivity report of 1000 peers with eight addresses fewer.
const MAX_COLLECTIONS: usize = 1 << 16;
/// The same inventory has 400000.
const MAX_VALUES: usize = 1 << 19;
/// What the parser takes.
const MAX_DEPTH: usize = 127;

pub fn object<T: DeserializeOwned>(text: &str, model: &str) -> Result<T, Refusal> {
    typed(Value::Object(fields(text, model)?))
}

pub fn list(text: &str, model: &str) -> Result<Vec<Value>, Refusal> {
    match parsed(text)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(entries) => Ok(entries),
        other => Err(Refusal::invalid(wrong_type(&other, model))),
    }
}

/// `connectivity-check`. An entry without a host is about nothing.
pub fn connectivity(text: &str) -> Result<ConnectivityReport, Refusal> {
    let mut report = fields(text, "ConnectivityReport")?;
    if let Some(Value::Array(hosts)) = report.get_mut("remote_hosts") {
        hosts.retain(|host| host["host_id"].as_str().is_some_and(|id| id.parse::<HostId>().is_ok()));
    }
    typed(Value::Object(report))
}

/// `verify-vips`.
pub fn vips(text: &str) -> Result<Vec<VerifiedVip>, Refusal> {
    let entries = list(text, "VerifyVipsResponse")?;
    Ok(entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}

/// `container-image-availability`. Sizes are numbers, whole or not.
pub fn images(text: &str) -> Result<Vec<ContainerImageAvailability>, Refusal> {
    let mut answer = fields(text, "ContainerImageAvailabilityResponse")?;
    let entries = match answer.remove("images").unwrap_or_default() {
        Value::Null => Vec::new(),
        Value::Array(entries) => entries,
        other => return Err(Refusal::invalid(wrong_type(&other, "ContainerImageAvailability"))),
    };
    let image = |mut entry: Value| {
        if let Some(size) = entry.get_mut("size_bytes") {
            *size = Value::from(whole(size));
        }
        serde_json::from_value(entry).ok()
    };
    Ok(entries.into_iter().filter_map(image).collect())
}

/// `dhcp-lease-allocate`.
pub fn leases(text: &str) -> Result<DhcpAllocationResponse, Refusal> {
    let mut answer = fields(text, "DhcpAllocationResponse")?;
    for name in ["api_vip_address", "ingress_vip_address"] {
        answer.entry(name).or_insert_with(|| Value::from(""));
    }
    typed(Value::Object(answer))
}

/// `installation-disk-speed-check`. A disk that was not measured has a negative duration.
pub fn disk_speed(text: &str) -> Result<DiskSpeedCheckResponse, Refusal> {
    let mut answer = fields(text, "DiskSpeedCheckResponse")?;
    if answer.get("io_sync_duration").and_then(Value::as_i64).is_some_and(|duration| duration < 0) {
        answer.remove("io_sync_duration");
    }
    typed(Value::Object(answer))
}

fn parsed(text: &str) -> Result<Value, Refusal> {
    check_extent(text)?;
    serde_json::from_str(text).map_err(Refusal::invalid)
}

/// Refuses an output that would take many times its size once it is parsed.
fn check_extent(text: &str) -> Result<(), Refusal> {
    let (mut collections, mut values, mut depth) = (0_usize, 0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                (collections, depth) = (collections + 1, depth + 1);
                if depth > MAX_DEPTH {
                    return Err(Refusal::invalid(format!("the output is nested more than {MAX_DEPTH} deep")));
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            b',' if !in_string => values += 1,
            _ => {}
        }
    }
    if collections <= MAX_COLLECTIONS && values <= MAX_VALUES {
        return Ok(());
    }
    let message =
        format!("the output has more than {MAX_COLLECTIONS} objects and lists, or more than {MAX_VALUES} values");
    Err(Refusal::Request(StatusCode::PAYLOAD_TOO_LARGE, message))
}

fn typed<T: DeserializeOwned>(document: Value) -> Result<T, Refusal> {
    serde_json::from_value(document).map_err(Refusal::invalid)
}

/// The fields of an object that are there. Its kind is looked at first: a list would pass for a structure of as many fields.
fn fields(text: &str, model: &str) -> Result<Map<String, Value>, Refusal> {
    match parsed(text)? {
        Value::Null => Ok(Map::new()),
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null());
            Ok(fields)
        }
        other => Err(Refusal::invalid(wrong_type(&other, model))),
    }
}

/// A number of bytes; 0 for what is none.
// A size beyond 2^53 bytes may be rounded: it is told to people only.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(number: &Value) -> u64 {
    let rounded = || number.as_f64().filter(|bytes| *bytes >= 0.0).map_or(0, |bytes| bytes as u64);
    number.as_u64().unwrap_or_else(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_says_nothing_is_left_out_and_the_rest_is_taken() {
        let id = HostId::random();
        let report = json!({"remote_hosts": [
            {"l3_connectivity": [{"remote_ip_address": "192.0.2.1", "successful": true}]},
            {"host_id": "", "l2_connectivity": null},
            {"host_id": id, "l2_connectivity": null, "new": 1},
        ]});
        let hosts: Vec<_> =
            connectivity(&report.to_string()).unwrap().remote_hosts.into_iter().map(|host| host.host_id).collect();
        assert_eq!(hosts, [id]);
        assert_eq!(connectivity("{}").unwrap().remote_hosts, []);
        assert_eq!(connectivity("null").unwrap().remote_hosts, []);

        let answer = json!({"images": [
            {"name": "a", "result": "success", "size_bytes": 333_000_000.0, "time": 1.5},
            {"name": "b", "result": "failure", "size_bytes": 1.5},
            {"result": "success"},
            {"name": "c", "result": "maybe"},
        ]});
        let found = images(&answer.to_string()).unwrap();
        assert_eq!(
            found.iter().map(|image| (image.name.as_str(), image.size_bytes)).collect::<Vec<_>>(),
            [("a", 333_000_000), ("b", 1)]
        );
        assert!(images("{}").unwrap().is_empty());

        let answer =
            json!([{"vip": "192.0.2.1", "vip_type": "api", "verification": "succeeded"}, {"vip": "192.0.2.2"}]);
        assert_eq!(vips(&answer.to_string()).unwrap().len(), 1);
        assert_eq!(leases("{}").unwrap(), DhcpAllocationResponse::default());
        assert_eq!(disk_speed(r#"{"path":"/dev/sda","io_sync_duration":-1}"#).unwrap().io_sync_duration, 0);
    }

    #[test]
    fn an_output_of_too_many_parts_is_refused_before_it_is_parsed() {
        let status = |text: &str| match object::<Map<String, Value>>(text, "Inventory") {
            Err(Refusal::Request(status, _)) => status.as_u16(),
            other => other.map_or(0, |_| 200),
        };
        assert_eq!(status(&format!(r#"{{"disks":[{}{{}}]}}"#, "{},".repeat(60_000))), 200);
        assert_eq!(status(&format!(r#"{{"disks":[{}{{}}]}}"#, "{},".repeat(70_000))), 413);
        assert_eq!(status(&format!(r#"{{"disks":[{}0]}}"#, "0,".repeat(600_000))), 413);
        // What stands in a string is one value.
        assert_eq!(status(&format!(r#"{{"hostname":"\"{}"}}"#, "[{,".repeat(600_000))), 200);
    }

    #[test]
    fn other_kinds_of_documents_are_refused_in_the_published_words() {
        let refused = |outcome: Result<(), Refusal>| match outcome {
            Err(Refusal::Application(status, reason)) => (status.as_u16(), reason),
            other => panic!("{other:?}"),
        };
        let (status, reason) = refused(object::<Map<String, Value>>("[]", "NtpSynchronizationResponse").map(drop));
        assert_eq!(status, 400);
        assert_eq!(reason, "json: cannot unmarshal array into Go value of type models.NtpSynchronizationResponse");
        let (_, reason) = refused(list("{}", "FreeNetworksAddresses").map(drop));
        assert_eq!(reason, "json: cannot unmarshal object into Go value of type models.FreeNetworksAddresses");
        assert_eq!(refused(connectivity("{bad json").map(drop)).0, 400);
        assert_eq!(refused(disk_speed(r#"{"io_sync_duration":"1"}"#).map(drop)).0, 400);
    }
}
