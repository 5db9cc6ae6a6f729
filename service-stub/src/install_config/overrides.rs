//! Overrides: a JSON text that is decoded over the configuration by the rules of Go's decoder, which clients rely on. Objects merge,
//! elements of lists merge by their index, and the override says how long a list is.

use crate::http::call::shortened;
use crate::install_config::schema::{CONFIG, Kind};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, error::Category};
use std::fmt;

/// Decodes an override over a configuration. The reason never contains a value, which may be secret.
pub(crate) fn merge(config: &mut Value, text: &str) -> Result<(), String> {
    // What is behind the first value is not looked at, as the real service's decoder does not.
    let over = Json::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            Category::Eof if text.trim().is_empty() => "EOF".to_owned(),
            Category::Eof => "unexpected EOF".to_owned(),
            _ => format!("invalid character at line {line} column {column} of the override"),
        }
    })?;
    let mut merge = Merge::default();
    merge.value(CONFIG, config, over);
    merge.error.map_or(Ok(()), Err)
}

/// Keys in their order, repeated ones too: each is decoded over what those before it left.
enum Json {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// As errors name it.
    fn name(&self, wanted: Kind) -> String {
        match (self, wanted) {
            (Self::Null, _) => "null".to_owned(),
            (Self::Flag(_), _) => "bool".to_owned(),
            (Self::Number(number), Kind::Int | Kind::Int32) => format!("number {number}"),
            (Self::Number(_), _) => "number".to_owned(),
            (Self::Text(_), _) => "string".to_owned(),
            (Self::List(_), _) => "array".to_owned(),
            (Self::Object(_), _) => "object".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Flag(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = entries.next_entry()? {
            members.push(member);
        }
        Ok(Json::Object(members))
    }
}

/// Where the decoder is, and the first thing that was wrong: it goes through the rest all the same.
#[derive(Default)]
struct Merge {
    /// The object that the current field belongs to.
    owner: &'static str,
    path: Vec<&'static str>,
    error: Option<String>,
}

impl Merge {
    fn value(&mut self, kind: Kind, into: &mut Value, over: Json) {
        match (kind, over) {
            (Kind::Pointer(_) | Kind::List(_), Json::Null) => *into = Value::Null,
            (_, Json::Null) => {}
            (Kind::Pointer(kind), over) => self.value(*kind, into, over),
            (Kind::Text(_), Json::Text(text)) => *into = Value::String(text),
            (Kind::Flag, Json::Flag(flag)) => *into = Value::Bool(flag),
            (Kind::Int, Json::Number(number)) if number.is_i64() => *into = Value::Number(number),
            (Kind::Int32, Json::Number(number)) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {
                *into = Value::Number(number);
            }
            (Kind::List(kind), Json::List(items)) => {
                let mut merged = match into.take() {
                    Value::Array(built) => built,
                    _ => Vec::new(),
                };
                merged.resize(items.len(), Value::Null);
                for (item, over) in merged.iter_mut().zip(items) {
                    self.value(*kind, item, over);
                }
                *into = Value::Array(merged);
            }
            (Kind::Object(object), Json::Object(members)) => {
                let mut merged = match into.take() {
                    Value::Object(built) => built,
                    _ => Map::new(),
                };
                let outer = std::mem::replace(&mut self.owner, object.short_name());
                for (key, over) in members {
                    let Some(field) = object.field(&key) else {
                        self.fail(format!("json: unknown field {:?}", shortened(&key)));
                        continue;
                    };
                    self.path.push(field.name);
                    self.value(field.kind, merged.entry(field.name).or_insert(Value::Null), over);
                    self.path.pop();
                }
                self.owner = outer;
                *into = Value::Object(merged);
            }
            (kind, over) => {
                let (seen, wanted, path) = (over.name(kind), kind.name(), self.path.join("."));
                self.fail(match path.is_empty() {
                    true => format!("json: cannot unmarshal {seen} into Go value of type {wanted}"),
                    false => {
                        let owner = self.owner;
                        format!("json: cannot unmarshal {seen} into Go struct field {owner}.{path} of type {wanted}")
                    }
                });
            }
        }
    }

    fn fail(&mut self, why: String) {
        self.error.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merged(mut config: Value, over: &str) -> Result<Value, String> {
        merge(&mut config, over).map(|()| config)
    }

    #[test]
    fn each_kind_merges_in_its_own_way() {
        let built = || {
            json!({
                "fips": false, "sshKey": "key", "proxy": {"httpProxy": "h", "noProxy": "n"},
                "networking": {"networkType": "OVNKubernetes", "serviceNetwork": ["a", "b"],
                    "clusterNetwork": [{"cidr": "c", "hostPrefix": 23}, {"cidr": "d", "hostPrefix": 64}]},
            })
        };
        for (over, pointer, wanted) in [
            (r#"{"fips":true}"#, "/fips", json!(true)),
            (r#"{"FIPS":true} and more"#, "/fips", json!(true)),
            (r#"{"fip\u017f":true}"#, "/fips", json!(true)),
            (r#"{"sshKey":null}"#, "/sshKey", json!("key")),
            (r#"{"proxy":null}"#, "/proxy", Value::Null),
            (r#"{"proxy":{"noProxy":"m"}}"#, "/proxy", json!({"httpProxy": "h", "noProxy": "m"})),
            (r#"{"proxy":null,"proxy":{"noProxy":"m"}}"#, "/proxy", json!({"noProxy": "m"})),
            (r#"{"networking":null}"#, "/networking/networkType", json!("OVNKubernetes")),
            (r#"{"networking":{"serviceNetwork":["x"]}}"#, "/networking/serviceNetwork", json!(["x"])),
            (
                r#"{"networking":{"serviceNetwork":[null,"x","y"]}}"#,
                "/networking/serviceNetwork",
                json!(["a", "x", "y"]),
            ),
            (r#"{"networking":{"serviceNetwork":[]}}"#, "/networking/serviceNetwork", json!([])),
            (r#"{"networking":{"serviceNetwork":null}}"#, "/networking/serviceNetwork", Value::Null),
            (
                r#"{"networking":{"clusterNetwork":[{"cidr":"x"}]}}"#,
                "/networking/clusterNetwork",
                json!([{"cidr": "x", "hostPrefix": 23}]),
            ),
            (r#"{"platform":{"baremetal":{}}}"#, "/platform/baremetal", json!({})),
            (r#"{"platform":{"external":{"platformName":"x"}}}"#, "/platform/external/PlatformName", json!("x")),
        ] {
            let config = merged(built(), over).unwrap();
            assert_eq!(config.pointer(pointer), Some(&wanted), "{over}");
        }
    }

    #[test]
    fn refusals_are_the_decoders() {
        for (over, why) in [
            (r#"{"zzz":1,"fips":7}"#, r#"json: unknown field "zzz""#),
            (r#"{"networking":{"zzz":{"a":[1]}}}"#, r#"json: unknown field "zzz""#),
            (
                r#"{"fips":"yes"}"#,
                "json: cannot unmarshal string into Go struct field InstallerConfigBaremetal.fips of type bool",
            ),
            (
                r#"{"compute":[{"replicas":1.5}]}"#,
                "json: cannot unmarshal number 1.5 into Go struct field .compute.replicas of type int",
            ),
            (
                r#"{"networking":{"networkType":7}}"#,
                "json: cannot unmarshal number into Go struct field .networking.networkType of type string",
            ),
            (
                r#"{"featureGates":{}}"#,
                "json: cannot unmarshal object into Go struct field InstallerConfigBaremetal.featureGates of type []string",
            ),
            (
                r#"{"proxy":[]}"#,
                "json: cannot unmarshal array into Go struct field InstallerConfigBaremetal.proxy of type installcfg.Proxy",
            ),
            (
                r#"{"platform":{"vsphere":{"vcenters":[{"port":2147483648}]}}}"#,
                "json: cannot unmarshal number 2147483648 into Go struct field VsphereVCenter.platform.vsphere.vcenters.port of type int32",
            ),
            ("[1]", "json: cannot unmarshal array into Go value of type installcfg.InstallerConfigBaremetal"),
            (" ", "EOF"),
            (r#"{"fips":"#, "unexpected EOF"),
            (r#"{"pullSecret":"hunter2",}"#, "invalid character at line 1 column 25 of the override"),
        ] {
            assert_eq!(merged(json!({}), over).unwrap_err(), why, "{over}");
        }
        assert!(merged(json!({}), &"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in r#"[{}\[\]":,a-z0-9. ]{0,64}"#) {
            let _ = merged(json!({}), &text);
        }
    }
}
