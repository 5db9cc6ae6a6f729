//! The parts of an Ignition config (spec 3.1 and 3.2) that Landfall writes; all else is kept in `rest`.

use crate::redact::redact;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// `skip_serializing_if` helper.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Spec version of discovery configs.
pub const V3_1: &str = "3.1.0";
/// Spec version of host configs.
pub const V3_2: &str = "3.2.0";

/// A config. Its `Debug` is the JSON with secrets left out, see [`redact()`].
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Version, other configs, security, proxy.
    pub ignition: Ignition,
    /// Users and groups.
    #[serde(default, skip_serializing_if = "is_default")]
    pub passwd: Passwd,
    /// Files, directories, links, disks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub storage: Storage,
    /// Units.
    #[serde(default, skip_serializing_if = "is_default")]
    pub systemd: Systemd,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Config {
    /// An empty config of spec `version`.
    pub fn new(version: &str) -> Self {
        Self { ignition: Ignition { version: version.to_owned(), ..Ignition::default() }, ..Self::default() }
    }

    /// Reads JSON text. Only the shape is checked, not what the specification says of the values.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// Compact JSON, as embedded and served.
    pub fn to_json(&self) -> String {
        self.to_value().to_string()
    }

    /// As a JSON value, members in alphabetical order.
    pub fn to_value(&self) -> Value {
        // A map with text keys and no fallible Serialize inside: this can't fail, and an empty object would be caught at once
        // by every reader, as its version is missing.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        // nmstate has serde_json keep members in the order they came in.
        value.sort_all_objects();
        value
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Config({})", redact(&self.to_value()))
    }
}

/// `ignition`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ignition {
    /// Spec version, three numbers.
    pub version: String,
    /// Configs to fetch and merge.
    #[serde(default, skip_serializing_if = "is_default")]
    pub config: ConfigReferences,
    /// How to reach the network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub proxy: ProxySettings,
    /// Certificates.
    #[serde(default, skip_serializing_if = "is_default")]
    pub security: Security,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `ignition.config`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigReferences {
    /// Merged into this one, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merge: Vec<Resource>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `ignition.proxy`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxySettings {
    /// For http URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    /// For https URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    /// What goes direct.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_proxy: Vec<String>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `ignition.security`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Security {
    /// TLS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Tls,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `ignition.security.tls`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Trusted beside the system's own while Ignition fetches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificate_authorities: Vec<Resource>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Something to be fetched.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// URL: http, https, tftp, s3, gs, data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `gzip`, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<String>,
    /// Sent with the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http_headers: Vec<HttpHeader>,
    /// Digest of the (decompressed) bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verification: Verification,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Resource {
    /// What `source` names, unverified.
    pub fn of(source: impl Into<String>) -> Self {
        Self { source: Some(source.into()), ..Self::default() }
    }
}

/// A request header.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpHeader {
    /// Name.
    pub name: String,
    /// Value; null in a child takes the parent's header away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `verification`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// `sha512-` or `sha256-` and hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `passwd`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Passwd {
    /// Users to make or change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A user.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Login name.
    pub name: String,
    /// As in /etc/shadow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<String>,
    /// Public keys, one each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_authorized_keys: Vec<String>,
    /// Supplementary groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `storage`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    /// Directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<Directory>,
    /// Files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    /// Symbolic and hard links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// Keys not modelled here: disks, raid, luks, filesystems.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A directory.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    /// Absolute path.
    pub path: String,
    /// Replace what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
    /// Permission bits; a decimal number in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Keys not modelled here: owner.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A file.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// Absolute path.
    pub path: String,
    /// Replace what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
    /// Permission bits; a decimal number in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// What is in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub contents: Resource,
    /// Keys not modelled here: owner, fragments to append.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A link.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Absolute path.
    pub path: String,
    /// Replace what is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
    /// Where it points to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A hard link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<bool>,
    /// Keys not modelled here: owner.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `systemd`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Systemd {
    /// Units.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Unit>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A unit.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Name with its suffix.
    pub name: String,
    /// Enabled or disabled on first boot; untouched when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Linked to /dev/null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<bool>,
    /// The unit file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// Files in its `.d` directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropins: Vec<Dropin>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A drop-in of a unit.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Dropin {
    /// Name, ending in `.conf`.
    pub name: String,
    /// What is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// Keys not modelled here.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
