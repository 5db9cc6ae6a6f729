//! What the machine config operator takes, and the MachineConfig around a config.

use super::value::{Data, Value};
use crate::json::Value as Json;
use serde_json::json;
use std::ops::RangeInclusive;

const ALL: RangeInclusive<u8> = 0..=u8::MAX;

const USER: &str = "only name, ssh_authorized_keys and (from 4.13 on) password_hash of a user are supported";
/// What is refused: where, in which minor versions, and what is said of it. `*` is any entry of a list.
const REFUSED: &[(&str, RangeInclusive<u8>, &str)] = &[
    ("kernelArguments", 14..=u8::MAX, "kernel arguments are given in openshift.kernel_arguments"),
    ("passwd.groups", ALL, "groups are not supported"),
    ("passwd.users.*.gecos", ALL, USER),
    ("passwd.users.*.groups", ALL, USER),
    ("passwd.users.*.homeDir", ALL, USER),
    ("passwd.users.*.noCreateHome", ALL, USER),
    ("passwd.users.*.noLogInit", ALL, USER),
    ("passwd.users.*.noUserGroup", ALL, USER),
    ("passwd.users.*.passwordHash", 0..=12, USER),
    ("passwd.users.*.primaryGroup", ALL, USER),
    ("passwd.users.*.shell", ALL, USER),
    ("passwd.users.*.shouldExist", ALL, USER),
    ("passwd.users.*.system", ALL, USER),
    ("passwd.users.*.uid", ALL, USER),
    ("storage.directories", ALL, "directories are not supported"),
    ("storage.files.*.append", ALL, "appending to files is not supported"),
    ("storage.files.*.contents.compression", 0..=9, "compressed contents are not supported"),
    ("storage.files.*.contents.httpHeaders", ALL, "HTTP headers are not supported"),
    ("storage.links", ALL, "links are not supported"),
];

/// Finds what the operator does not take, as path in the config and message. `is_whole` is false if the config is used
/// without it.
pub(super) fn refused(config: Json<'_, '_>, minor: u8, is_whole: bool, found: &mut dyn FnMut(String, &str)) {
    if is_whole {
        for (path, _, message) in REFUSED.iter().filter(|(_, versions, _)| versions.contains(&minor)) {
            each(config, path, &mut |at, value| {
                // Contents that are not compressed say so.
                if value.text().is_none_or(|text| !text.is_empty() || !path.ends_with("compression")) {
                    found(at, message);
                }
            });
        }
    }
    each(config, "storage.filesystems.*.format", &mut |at, format| match format.text().as_deref() {
        Some("btrfs") => found(at, "btrfs is not supported"),
        Some("none") if minor >= 14 => found(at, "file systems without a format are not supported"),
        _ => {}
    });
    each(config, "storage.files.*.contents.source", &mut |at, source| {
        let is_data = |source: &str| source.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
        if !source.text().is_some_and(|source| is_data(&source)) {
            found(at, "contents must be in the config: as inline, local or a data: URL");
        }
    });
    each(config, "storage.files.*.mode", &mut |at, mode| {
        let mode = str::from_utf8(mode.source()).ok().and_then(|mode| mode.parse::<i64>().ok());
        if minor >= 10 && mode.is_some_and(|mode| mode & !0o777 != 0) {
            found(at, "special bits of modes are not supported");
        }
    });
    each(config, "passwd.users.*.name", &mut |at, name| {
        if name.text().as_deref() != Some("core") {
            found(at, "the only user is core");
        }
    });
}

/// Calls back for every value at a path.
fn each(value: Json<'_, '_>, path: &str, found: &mut dyn FnMut(String, Json<'_, '_>)) {
    fn walk(value: Json<'_, '_>, at: String, path: &[&str], found: &mut dyn FnMut(String, Json<'_, '_>)) {
        match path {
            [] => found(at, value),
            ["*", rest @ ..] => {
                for (place, item) in value.items().enumerate() {
                    walk(item, format!("{at}.{place}"), rest, found);
                }
            }
            [key, rest @ ..] => {
                if let Some(member) = value.member(key) {
                    walk(member, format!("{at}.{key}"), rest, found);
                }
            }
        }
    }
    let steps: Vec<&str> = path.split('.').collect();
    walk(value, "$".to_owned(), &steps, found);
}

/// FIPS 140 forbids the default cipher; these options choose another one. Versions before 4.20 add them.
const FIPS_OPTIONS: [&str; 2] = ["--cipher", "aes-cbc-essiv:sha256"];

/// The options to add to an encrypted volume that has these.
pub(super) fn fips_options(minor: u8, spec: Option<&Value>, options: &[&str]) -> Option<[&'static str; 2]> {
    let is_fips = minor < 20 && spec.is_some_and(|spec| spec.is_true(&["fips"]));
    let [long, _] = FIPS_OPTIONS;
    let chooses = |option: &&str| {
        *option == "-c" || option.strip_prefix(long).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    (is_fips && !options.iter().any(chooses)).then_some(FIPS_OPTIONS)
}

/// The MachineConfig of a config, as YAML.
pub(super) fn machine_config(metadata: Option<&Value>, spec: Option<&Value>, config: &[u8]) -> Result<String, String> {
    let json = |value: &Value| {
        let mut text = Vec::new();
        value.write(&mut text);
        serde_json::from_slice::<serde_json::Value>(&text).map_err(|error| error.to_string())
    };
    let mut whole = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": metadata.map(json).transpose()?,
    });
    let config: serde_json::Value = serde_json::from_slice(config).map_err(|error| error.to_string())?;
    let mut to = serde_json::Map::from_iter([("config".to_owned(), config)]);
    if let Some(Value { data: Data::Object(_, members), .. }) = spec {
        let is_list_of_nothing = |value: &Value| matches!(&value.data, Data::List(list) if list.is_empty());
        for (key, value) in members.iter().filter(|(_, value)| !is_list_of_nothing(value)) {
            to.insert((*key).to_owned(), json(value)?);
        }
    }
    if let Some(whole) = whole.as_object_mut() {
        whole.insert("spec".to_owned(), to.into());
    }
    serde_norway::to_string(&whole).map_err(|error| error.to_string())
}
