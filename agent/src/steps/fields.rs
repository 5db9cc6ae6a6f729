//! Whether a step's request has what it must have, as the real agent's library finds it and in its words (docs/compatibility.md#steps): the
//! service keeps some of these texts, and people search for them. What else is wrong the typed readers of each step find.

use super::refusal::Refusal;
use api::{HostRole, Step};
use serde_json::Value;

/// More of a wrong value is not repeated.
const MAX_VALUE_CHARS: usize = 80;
/// What the real agent holds references of images against (docs/compatibility.md#registration).
const IMAGE_PATTERN: &str = r"^(([a-zA-Z0-9\-\.]+)(:[0-9]+)?\/)?[a-z0-9\._\-\/@]+[?::a-zA-Z0-9_\-.]+$";
/// For what an image of must-gather may be (docs/compatibility.md#install-step).
const MUST_GATHER_KEYS: [&str; 5] = ["cnv", "lso", "ocs", "odf", "ocp"];

/// Form of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Any,
    Uuid,
    Mac,
    Image,
    Role,
    Version,
    /// An image, or a document of images by what they are for.
    MustGather,
}

use Format::{Any, Image, Mac, MustGather, Role, Uuid, Version};

/// Name, whether it must be there, and what it is.
pub(crate) type Field = (&'static str, bool, Format);

/// Refuses a request that lacks something, or has it in another form. One that is not a JSON object passes: its reader reports more.
pub(super) fn check(fields: &[Field], step: &Step) -> Result<(), Refusal> {
    let Some(Ok(Value::Object(request))) = step.args.first().map(|text| serde_json::from_slice(text.as_bytes())) else {
        return Ok(());
    };
    let faults = fields.iter().filter_map(|&(name, required, format)| match request.get(name) {
        None | Some(Value::Null) => required.then(|| format!("{name} in body is required")),
        // Of another type than a text: the reader names that.
        Some(value) => fault(name, value.as_str()?, format),
    });
    let faults: Vec<_> = faults.collect();
    if faults.is_empty() { Ok(()) } else { Err(Refusal::Fields(faults)) }
}

fn fault(name: &str, value: &str, format: Format) -> Option<String> {
    let start: String = value.chars().take(MAX_VALUE_CHARS).collect();
    let of_type = |kind: &str| format!("{name} in body must be of type {kind}: {start:?}");
    let (fits, text) = match format {
        Any => return None,
        Uuid => (value.parse::<api::HostId>().is_ok(), of_type("uuid")),
        Mac => (is_mac(value), of_type("mac")),
        Image => (is_image(value), format!("{name} in body should match '{IMAGE_PATTERN}'")),
        Role => {
            (is_role(value), format!("{name} in body should be one of [auto-assign master arbiter worker bootstrap]"))
        }
        Version => (is_version(value), of_type("version")),
        MustGather => (is_must_gather(value), of_type("must-gather image")),
    };
    (!fits).then_some(text)
}

/// Six or eight octets in hexadecimal, between colons or hyphens.
fn is_mac(text: &str) -> bool {
    let octets = |separator: char| {
        let all: Vec<&str> = text.split(separator).collect();
        [6, 8].contains(&all.len())
            && all.iter().all(|octet| octet.len() == 2 && octet.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    octets(':') || octets('-')
}

fn is_role(text: &str) -> bool {
    api::json::from_value::<HostRole>(text.into()).is_ok()
}

/// Numbers between dots, and then what a pre-release or a build is called.
fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (numbers, rest) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '~');
    numbers.split('.').all(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        && rest.chars().all(allowed)
        && rest != "-"
}

fn is_must_gather(text: &str) -> bool {
    match serde_json::from_slice::<Value>(text.as_bytes()) {
        Ok(Value::Object(images)) => images
            .iter()
            .all(|(key, image)| MUST_GATHER_KEYS.contains(&key.as_str()) && image.as_str().is_some_and(is_image)),
        _ => is_image(text),
    }
}

/// Matches [`IMAGE_PATTERN`]: a registry may stand before the first slash; of the rest some start and some end have letters of
/// their own.
fn is_image(text: &str) -> bool {
    let registry = |text: &str| {
        let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
        is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
    };
    let behind = text.split_once('/').filter(|(before, _)| registry(before)).map(|(_, behind)| behind);
    has_name_and_tail(text) || behind.is_some_and(has_name_and_tail)
}

fn has_name_and_tail(text: &str) -> bool {
    let is_name = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-/@".contains(b);
    let is_tail = |b: &u8| b.is_ascii_alphanumeric() || b"?:_-.".contains(b);
    let name_len = text.bytes().take_while(|b| is_name(b)).count();
    let tail_start = text.len() - text.bytes().rev().take_while(|b| is_tail(b)).count();
    // Some place parts the two, with at least a letter on each side.
    tail_start.max(1) <= name_len.min(text.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::kind;
    use api::StepType;
    use serde_json::json;

    fn fields(step: &Step) -> &'static [Field] {
        kind(&step.step_type).unwrap().fields
    }

    fn refused(kind: StepType, request: Value) -> String {
        let step = Step { args: vec![request.to_string()], step_id: "x-1".into(), step_type: kind };
        check(fields(&step), &step).unwrap_err().to_string()
    }

    #[test]
    fn each_fault_is_named_in_the_words_people_know() {
        let ok = "00:1a:4a:00:00:01";
        let text = refused(
            StepType::DhcpLeaseAllocate,
            json!({"interface": "e0", "api_vip_mac": "invalid_mac", "ingress_vip_mac": ok}),
        );
        assert_eq!(text, "validation failure list:\napi_vip_mac in body must be of type mac: \"invalid_mac\"");
        let text = refused(StepType::DhcpLeaseAllocate, json!({"ingress_vip_mac": null}));
        let all = ["api_vip_mac", "ingress_vip_mac", "interface"].map(|name| format!("{name} in body is required"));
        assert_eq!(text, format!("validation failure list:\n{}", all.join("\n")));
        let mut request: Value = json!({
            "boot_device": "/dev/x", "cluster_id": "bad", "controller_image": "r.io/c:1", "host_id": "",
            "infra_env_id": "bbbbbbbb-0000-0000-0000-000000000001", "installer_image": "a b", "role": "king"
        });
        let text = refused(StepType::Install, request.clone());
        assert_eq!(
            text,
            format!(
                "validation failure list:\ncluster_id in body must be of type uuid: \"bad\"\nhost_id in body must be of type \
                 uuid: \"\"\ninstaller_image in body should match '{IMAGE_PATTERN}'\nrole in body should be one of \
                 [auto-assign master arbiter worker bootstrap]"
            )
        );
        for name in ["cluster_id", "host_id"] {
            request[name] = request["infra_env_id"].clone();
        }
        request["installer_image"] = "quay.io/ns/i@sha256:00".into();
        request["role"] = "arbiter".into();
        let step = |request: &Value| Step {
            args: vec![request.to_string()],
            step_id: "x-1".into(),
            step_type: StepType::Install,
        };
        assert!(check(fields(&step(&request)), &step(&request)).is_ok());
        request["must_gather_image"] = json!({"ocp": "r.io/a:1", "other": "r.io/b:1"}).to_string().into();
        request["openshift_version"] = "four".into();
        let text = check(fields(&step(&request)), &step(&request)).unwrap_err().to_string();
        assert!(text.contains("must_gather_image") && text.contains("openshift_version"), "{text}");
    }

    #[test]
    fn forms_are_distinguished() {
        for image in ["quay.io:443/ns/agent:latest", "r/a@sha256:0f", "localhost/x", "UP.io/a1", "ab", "a?x"] {
            assert!(is_image(image), "{image}");
        }
        for image in ["", "a", "A b", "quay.io/NS/agent", "r.io:x/a:b$", "a/", "-$"] {
            assert!(!is_image(image), "{image}");
        }
        for version in ["4.22.9", "v4", "4.20.0-rc.1", "4.20.0-0.nightly-2026-01-01-010101"] {
            assert!(is_version(version), "{version}");
        }
        for version in ["", "v", "4.", "four", "4.1 ", "4-"] {
            assert!(!is_version(version), "{version}");
        }
        assert!(is_mac("00:1A:4a:00:00:01") && is_mac("00-1a-4a-00-00-01"));
        assert!(!is_mac("00:1a:4a:00:00") && !is_mac("00:1a:4a:00:00:0g") && !is_mac("001a4a000001"));
    }

    #[test]
    fn what_is_no_object_is_left_to_its_reader() {
        for args in [vec![], vec!["[]".to_owned()], vec!["{".to_owned()], vec!["1".to_owned()]] {
            let step = Step { args, step_id: "x-1".into(), step_type: StepType::Install };
            assert!(check(fields(&step), &step).is_ok());
        }
    }
}
