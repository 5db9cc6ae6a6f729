//! Configs of the installer in a customized live system (docs/compatibility.md#installer-config-files): creates the one from options,
//! and validates given ones.

use super::{MAX_YAML_BYTES, console::Console};
use ignition::yaml::{self, WordedError};
use serde::{Deserialize, Deserializer, Serialize, de};

/// The config from options, in the order in which it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct InstallerOptions {
    /// Where the config of the installed system is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition_file: Option<&'static str>,
    /// Consoles of the installed system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
    /// Kernel arguments to append.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub append_karg: Vec<String>,
    /// Kernel arguments to delete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete_karg: Vec<String>,
    /// Whether the live system's network settings are copied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub copy_network: bool,
    /// Where to install.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_device: Option<String>,
}

/// Whether `yaml` is a config of the installer; the error says what is wrong.
pub(crate) fn check(yaml: &[u8]) -> Result<(), WordedError> {
    yaml::worded_document::<Given>(yaml, MAX_YAML_BYTES).map(drop)
}

/// All keys.
#[derive(Default, Deserialize)]
#[serde(rename = "InstallConfig", rename_all = "kebab-case", default, deny_unknown_fields)]
#[allow(dead_code)] // only checks that it parses
struct Given {
    stream: Option<String>,
    #[serde(deserialize_with = "url")]
    image_url: Option<String>,
    image_file: Option<String>,
    ignition_file: Option<String>,
    #[serde(deserialize_with = "url")]
    ignition_url: Option<String>,
    #[serde(deserialize_with = "hash")]
    ignition_hash: Option<String>,
    architecture: String,
    platform: Option<String>,
    #[serde(deserialize_with = "consoles")]
    console: Vec<String>,
    append_karg: Vec<String>,
    delete_karg: Vec<String>,
    copy_network: bool,
    network_dir: String,
    save_partlabel: Vec<String>,
    save_partindex: Vec<String>,
    offline: bool,
    insecure: bool,
    insecure_ignition: bool,
    #[serde(deserialize_with = "url")]
    stream_base_url: Option<String>,
    preserve_on_error: bool,
    #[serde(deserialize_with = "retries")]
    fetch_retries: String,
    secure_ipl: bool,
    dest_device: Option<String>,
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let url = Option::<String>::deserialize(deserializer)?;
    let has_scheme = |url: &String| {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    match url {
        Some(url) if !has_scheme(&url) => Err(de::Error::custom("relative URL without a base")),
        url => Ok(url),
    }
}

fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let Some(hash) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let Some((kind, digest)) = hash.split_once('-') else {
        return Err(de::Error::custom(format!("failed to detect hash-type and digest in '{hash}'")));
    };
    let expected = match kind {
        "sha256" => 64,
        "sha512" => 128,
        _ => return Err(de::Error::custom(format!("unknown hash type '{kind}'"))),
    };
    match digest.len() == expected && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(Some(hash)),
        false => Err(de::Error::custom("decoding hex digest")),
    }
}

fn consoles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let consoles = Vec::<String>::deserialize(deserializer)?;
    for console in &consoles {
        console.parse::<Console>().map_err(de::Error::custom)?;
    }
    Ok(consoles)
}

fn retries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let retries = String::deserialize(deserializer)?;
    if retries != "infinite" {
        retries.parse::<u32>().map_err(de::Error::custom)?;
    }
    Ok(retries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_in_their_order_and_are_a_config() {
        let options = InstallerOptions {
            ignition_file: Some("/etc/coreos/dest.ign"),
            console: vec!["ttyS0,9600n8".to_owned()],
            append_karg: vec!["a=b".to_owned(), "123".to_owned()],
            delete_karg: vec!["quiet".to_owned()],
            copy_network: true,
            dest_device: Some("/dev/vda".to_owned()),
        };
        let yaml = serde_norway::to_string(&options).unwrap();
        assert_eq!(
            yaml,
            "ignition-file: /etc/coreos/dest.ign\nconsole:\n- ttyS0,9600n8\nappend-karg:\n- a=b\n- '123'\ndelete-karg:\n\
             - quiet\ncopy-network: true\ndest-device: /dev/vda\n"
        );
        check(yaml.as_bytes()).unwrap();
    }

    #[test]
    fn an_invalid_config_is_named() {
        for (yaml, expected) in [
            ("dest-device: /dev/sda\nimage-url: https://a.example/x\nfetch-retries: '3'\n", ""),
            ("{}", ""),
            ("foo: bar", "unknown field `foo`"),
            ("image-url: x", "relative URL without a base"),
            ("console: [tty9]", "invalid or unsupported console argument"),
            ("fetch-retries: x", "invalid digit found in string"),
            ("ignition-hash: md5-00", "unknown hash type"),
            ("ignition-hash: sha256-00", "hex digest"),
            ("copy-network: 1", "invalid type"),
            ("config-file: [a]", "unknown field"),
            (&"{a: ".repeat(10_000), "it is nested too deeply"),
        ] {
            let found = check(yaml.as_bytes()).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{yaml}: {found}");
        }
    }
}
