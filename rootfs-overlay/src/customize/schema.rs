//! Ignition configs as coreos-installer's library writes them back: without unknown keys, with some missing keys as null, and in
//! alphabetical order (crate ignition-config 0.6, specification 3.0 to 3.6).

use super::tables::{CONFIG, Field, Kind, Missing, Table};
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Why a config can't be read. Texts are those of ignition-config.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("serialization error: {0}")]
    Json(#[from] serde_json::Error),
    /// An invalid version.
    #[error("couldn't parse config version: {0}")]
    Version(#[from] VersionError),
    /// An unknown version.
    #[error("unsupported config version: {0}")]
    Unknown(String),
}

/// What is wrong with a version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct VersionError(String);

/// A config, and its warnings.
#[derive(Clone, PartialEq)]
pub(crate) struct Config {
    value: Value,
    /// One for each unknown key.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads a config.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        #[derive(Deserialize)]
        struct Minimal {
            ignition: MinimalIgnition,
        }
        #[derive(Deserialize)]
        struct MinimalIgnition {
            version: String,
        }
        let minimal: Minimal = serde_json::from_slice(json)?;
        let version = check_version(&minimal.ignition.version)?;
        let mut warnings = Vec::new();
        let seed = Seed { kind: Kind::Table(&CONFIG), version, path: "$".to_owned(), unused: &mut warnings };
        let value = seed.deserialize(&mut serde_json::Deserializer::from_slice(json))?;
        Ok(Self { value, warnings })
    }

    /// As written, without a final newline.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        self.value.to_string().into_bytes()
    }
}

/// The minor version, if it is one of 3.0.0 to 3.6.0.
fn check_version(text: &str) -> Result<u8, ConfigError> {
    match text.strip_prefix("3.").and_then(|rest| rest.strip_suffix(".0")) {
        Some(minor @ ("0" | "1" | "2" | "3" | "4" | "5" | "6")) => Ok(minor.parse().unwrap_or_default()),
        _ => {
            semantic(text)?;
            Err(ConfigError::Unknown(text.to_owned()))
        }
    }
}

/// Whether this is a semantic version: three numbers, and anything after a hyphen or a plus sign.
fn semantic(text: &str) -> Result<(), VersionError> {
    let fail = |text: String| Err(VersionError(text));
    if text.is_empty() {
        return fail("empty string, expected a semver version".to_owned());
    }
    let mut rest = text;
    for (place, part) in ["major", "minor", "patch"].into_iter().enumerate() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        match (number, after.chars().next()) {
            ("", None) => return fail(format!("unexpected end of input while parsing {part} version number")),
            ("", Some(found)) => {
                return fail(format!("unexpected character {found:?} while parsing {part} version number"));
            }
            _ if number.len() > 1 && number.starts_with('0') => {
                return fail(format!("invalid leading zero in {part} version number"));
            }
            _ if number.parse::<u64>().is_err() => {
                return fail(format!("value of {part} version number exceeds u64::MAX"));
            }
            (_, None) if place < 2 => {
                return fail(format!("unexpected end of input while parsing {part} version number"));
            }
            (_, Some('.')) if place < 2 => rest = &after[1..],
            (_, None | Some('-' | '+')) if place == 2 => {}
            (_, found) => {
                let found = found.unwrap_or_default();
                return fail(format!("unexpected character {found:?} after {part} version number"));
            }
        }
    }
    Ok(())
}

/// Reads a value of some kind, and collects its unknown keys.
struct Seed<'a> {
    kind: Kind,
    version: u8,
    path: String,
    unused: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.kind {
            Kind::Text => String::deserialize(deserializer).map(Value::from),
            Kind::Number => i64::deserialize(deserializer).map(Value::from),
            Kind::Flag => bool::deserialize(deserializer).map(Value::from),
            Kind::MaybeText => Option::<String>::deserialize(deserializer).map(Value::from),
            Kind::List(_) => deserializer.deserialize_seq(self),
            Kind::Table(table) => deserializer.deserialize_struct(table.name, &[], self),
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.kind {
            Kind::Table(table) => write!(f, "struct {}", table.name),
            _ => f.write_str("a sequence"),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let Kind::List(kind) = self.kind else {
            return Err(de::Error::invalid_type(de::Unexpected::Seq, &self));
        };
        let mut list: Vec<Value> = Vec::new();
        loop {
            let path = format!("{}.{}", self.path, list.len());
            let seed = Seed { kind: *kind, version: self.version, path, unused: &mut *self.unused };
            match sequence.next_element_seed(seed)? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Kind::Table(Table { fields, .. }) = self.kind else {
            return Err(de::Error::invalid_type(de::Unexpected::Map, &self));
        };
        let fields: Vec<&Field> = fields.iter().filter(|field| field.versions.contains(&self.version)).collect();
        let mut found = vec![None; fields.len()];
        while let Some(key) = map.next_key::<String>()? {
            let path = format!("{}.{key}", self.path);
            let Some(at) = fields.iter().position(|field| field.key == key) else {
                self.unused.push(format!("unused key: {path}"));
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let (Some(field), Some(slot)) = (fields.get(at), found.get_mut(at)) else { continue };
            if slot.is_some() {
                return Err(de::Error::duplicate_field(field.key));
            }
            let seed = Seed { kind: field.kind, version: self.version, path, unused: &mut *self.unused };
            *slot = Some(match field.missing {
                Missing::Error => map.next_value_seed(seed)?,
                Missing::Null | Missing::Nothing => map.next_value_seed(Maybe(seed))?,
            });
        }
        let mut object = Map::new();
        for (field, value) in fields.into_iter().zip(found) {
            let value = value.filter(|value| field.missing != Missing::Nothing || !value.is_null());
            match (value, field.missing) {
                (Some(value), _) => drop(object.insert(field.key.to_owned(), value)),
                (None, Missing::Error) => return Err(de::Error::missing_field(field.key)),
                (None, Missing::Null) => drop(object.insert(field.key.to_owned(), Value::Null)),
                (None, Missing::Nothing) => {}
            }
        }
        Ok(Value::Object(object))
    }
}

/// Or null.
struct Maybe<'a>(Seed<'a>);

impl<'de> DeserializeSeed<'de> for Maybe<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Maybe<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("option")
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_known_comes_back_and_the_rest_is_named() {
        for (json, expected, unused) in [
            (r#"{"ignition": {"version": "3.0.0"}}"#, r#"{"ignition":{"version":"3.0.0"}}"#, &[][..]),
            (
                r#"{"systemd":{"units":[{"name":"v","d":"e"}]},"a":{},"ignition":{"version":"3.5.0","proxy":{}},"c":null}"#,
                r#"{"ignition":{"proxy":{"httpProxy":null,"httpsProxy":null},"version":"3.5.0"},"systemd":{"units":[{"contents":null,"enabled":null,"mask":null,"name":"v"}]}}"#,
                &["unused key: $.systemd.units.0.d", "unused key: $.a", "unused key: $.c"],
            ),
            (
                r#"{"ignition":{"version":"3.2.0"},"storage":{"links":[{"path":"/a","target":"b","hard":true}],"luks":[{"name":"x","clevis":{"tang":[{"url":"u"}]}}]}}"#,
                r#"{"ignition":{"version":"3.2.0"},"storage":{"links":[{"hard":true,"overwrite":null,"path":"/a","target":"b"}],"luks":[{"clevis":{"custom":null,"tang":[{"thumbprint":null,"url":"u"}],"threshold":null,"tpm2":null},"device":null,"label":null,"name":"x","uuid":null,"wipeVolume":null}]}}"#,
                &[],
            ),
            (
                r#"{"ignition":{"version":"3.6.0"},"kernelArguments":{"shouldExist":["a"],"shouldNotExist":null},"storage":{"disks":[{"device":"/d","partitions":[{"number":0}]}]}}"#,
                r#"{"ignition":{"version":"3.6.0"},"kernelArguments":{"shouldExist":["a"]},"storage":{"disks":[{"device":"/d","partitions":[{"guid":null,"label":null,"number":0,"resize":null,"shouldExist":null,"sizeMiB":null,"startMiB":null,"typeGuid":null,"wipePartitionEntry":null}],"wipeTable":null}]}}"#,
                &[],
            ),
        ] {
            let config = Config::parse(json.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(config.to_json()).unwrap(), expected);
            assert_eq!(config.warnings, unused);
        }
    }

    #[test]
    fn errors_of_unreadable_configs_are_named() {
        let text = |json: &str| Config::parse(json.as_bytes()).err().map(|error| error.to_string()).unwrap_or_default();
        for (json, expected) in [
            ("z", "serialization error: expected value at line 1 column 1"),
            ("{}", "serialization error: missing field `ignition` at line 1 column 2"),
            (
                r#"{"ignition": {"version": "z"}}"#,
                "couldn't parse config version: unexpected character 'z' while parsing major version number",
            ),
            (r#"{"ignition": {"version": "2.0.0"}}"#, "unsupported config version: 2.0.0"),
            (r#"{"ignition": {"version": "3.0.0-experimental"}}"#, "unsupported config version: 3.0.0-experimental"),
            (
                r#"{"ignition":{"version":"3.0.0"},"systemd":{"units":[{}]}}"#,
                "serialization error: missing field `name` at line 1 column 54",
            ),
            (
                r#"{"ignition":{"version":"3.0.0"},"storage":5}"#,
                "serialization error: invalid type: integer `5`, expected struct Storage at line 1 column 43",
            ),
            (
                r#"{"ignition":{"version":"3.0.0"},"storage":{"files":{}}}"#,
                "serialization error: invalid type: map, expected a sequence at line 1 column 51",
            ),
            (
                r#"{"ignition":{"version":"3.0.0","version":"3.0.0"}}"#,
                "serialization error: duplicate field `version` at line 1 column 40",
            ),
        ] {
            assert_eq!(text(json), expected, "{json}");
        }
        for (version, expected) in [
            ("", "empty string, expected a semver version"),
            ("3", "unexpected end of input while parsing major version number"),
            ("3.", "unexpected end of input while parsing minor version number"),
            ("3.1x", "unexpected character 'x' after minor version number"),
            ("03.1.0", "invalid leading zero in major version number"),
            ("99999999999999999999.1.0", "value of major version number exceeds u64::MAX"),
        ] {
            assert_eq!(semantic(version).unwrap_err().to_string(), expected, "{version:?}");
        }
        assert!(semantic("3.1.0-x").and(semantic("1.22.333+b")).is_ok());
    }

    proptest! {
        #[test]
        fn no_config_makes_it_panic(json in "[\\[\\]{}\":,a-z0-9]{0,60}", version in 0..7) {
            let _ = Config::parse(json.as_bytes());
            let _ = Config::parse(format!(r#"{{"ignition":{{"version":"3.{version}.0"}},"storage":{json}}}"#).as_bytes());
        }
    }
}
