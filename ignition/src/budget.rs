//! The space for a config in a live ISO, and what uses it.

use crate::pack::pack;
use crate::redact::redact_value;
use kernel::order;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Size of the embed area of every CoreOS live ISO so far: `images/ignition.img`.
pub const AREA_BYTES: u64 = 256 * 1024;
/// Parts that an error names.
const NAMED_PARTS: usize = 3;

/// Why a config doesn't fit an ISO.
#[derive(Debug, thiserror::Error)]
pub enum BudgetError {
    #[error("the Ignition config can't be packed")]
    Pack(#[from] std::io::Error),
    #[error(
        "the Ignition config is too large for the ISO: {packed_bytes} bytes packed, of {area_bytes}{}; \
         deliver large files from a web server (contents.source) instead of inside the config",
        largest(parts)
    )]
    TooLarge {
        /// Length of the compressed archive.
        packed_bytes: u64,
        /// Length of the area.
        area_bytes: u64,
        /// Its parts, the largest first.
        parts: Vec<Part>,
    },
}

/// A part of a config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// `file`, `unit`, `user`, …
    pub kind: &'static str,
    /// Path or name, without secrets.
    pub name: String,
    /// Length of its JSON.
    pub bytes: u64,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} bytes)", self.kind, self.name, self.bytes)
    }
}

fn largest(parts: &[Part]) -> String {
    let named: Vec<_> = parts.iter().take(NAMED_PARTS).map(ToString::to_string).collect();
    if named.is_empty() { String::new() } else { format!("; most of it is {}", named.join(", ")) }
}

/// How many bytes `config` takes packed; an error if those are more than the area has.
pub fn check_budget(config: &[u8]) -> Result<u64, BudgetError> {
    let packed_bytes = len(&pack(config)?);
    if packed_bytes <= AREA_BYTES {
        return Ok(packed_bytes);
    }
    let parts = serde_json::from_slice(config).map(|config| parts(&config)).unwrap_or_default();
    Err(BudgetError::TooLarge { packed_bytes, area_bytes: AREA_BYTES, parts })
}

/// Parts of a config, the largest first.
pub(crate) fn parts(config: &Value) -> Vec<Part> {
    const LISTS: [(&str, &str, &str); 8] = [
        ("/storage/files", "file", "path"),
        ("/storage/directories", "directory", "path"),
        ("/storage/links", "link", "path"),
        ("/storage/disks", "disk", "device"),
        ("/systemd/units", "unit", "name"),
        ("/passwd/users", "user", "name"),
        ("/ignition/config/merge", "config", "source"),
        ("/ignition/security/tls/certificateAuthorities", "certificate", "source"),
    ];
    let mut parts = Vec::new();
    for (list, kind, key) in LISTS {
        for item in config.pointer(list).and_then(Value::as_array).into_iter().flatten() {
            // A source may be a data: URL, which is long and may be secret.
            let shown = redact_value(item);
            let name = shown.get(key).and_then(Value::as_str).unwrap_or("(unnamed)");
            let name = name.chars().take(120).flat_map(char::escape_default).collect();
            parts.push(Part { kind, name, bytes: len(item.to_string().as_bytes()) });
        }
    }
    order::sort_by(&mut parts, |a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    parts
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn noise(len: usize) -> String {
        let mut rng = fastrand::Rng::with_seed(1);
        (0..len).map(|_| rng.alphanumeric()).collect()
    }

    fn config(noise: &str) -> Vec<u8> {
        let files: Vec<_> = [("/small", ""), ("/large", noise), ("/middle", "xxxx"), ("/least", "")]
            .map(|(path, text)| json!({"path": path, "contents": {"source": format!("data:,{text}")}}))
            .into();
        json!({"ignition": {"version": "3.2.0"}, "storage": {"files": files}}).to_string().into_bytes()
    }

    #[test]
    fn what_takes_the_room_is_named() {
        let noise = noise(400_000);
        let error = check_budget(&config(&noise)).unwrap_err();
        let BudgetError::TooLarge { packed_bytes, .. } = error else { panic!("{error}") };
        assert_eq!(
            error.to_string(),
            format!(
                "the Ignition config is too large for the ISO: {packed_bytes} bytes packed, of 262144; most of it is \
                 file /large (400048 bytes), file /middle (53 bytes), file /least (48 bytes); deliver large files from \
                 a web server (contents.source) instead of inside the config"
            )
        );
        assert!(check_budget(noise.as_bytes()).unwrap_err().to_string().contains("of 262144; deliver"));
    }

    #[test]
    fn the_area_may_be_full_but_not_more() {
        let config = config(&noise(100_000));
        assert_eq!(check_budget(&config).unwrap(), len(&pack(&config).unwrap()));
        // Of random letters, the packed length grows with each.
        let packed = |len: usize| check_budget(noise(len).as_bytes());
        let (mut fits, mut fits_not) = (300_000, 400_000);
        while fits_not - fits > 1 {
            let middle = (fits + fits_not) / 2;
            if packed(middle).is_ok() { fits = middle } else { fits_not = middle }
        }
        assert!(packed(fits).unwrap() > AREA_BYTES - 8 && packed(fits_not).is_err());
    }
}
