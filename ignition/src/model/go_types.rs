//! What the types of a config are called in Ignition's program, which its errors name.

use super::version::Version;
use std::borrow::Cow;

/// A step down to the value that is read.
#[derive(Clone, Debug)]
pub(crate) enum Place<'a> {
    /// A field, with its name as the document spells it.
    Field(&'static str, Cow<'a, str>),
    Item(usize),
}

/// What a value should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// By its name in Go.
    Scalar(&'static str),
    List,
    Object,
}

/// The type of the value at `path` below `root`.
pub(crate) fn type_name(root: &str, version: Version, path: &[Place<'_>], wanted: Wanted) -> String {
    let mut fields = path.iter().filter_map(|place| match place {
        Place::Field(name, _) => Some(*name),
        Place::Item(_) => None,
    });
    let section = fields.clone().nth(1).unwrap_or_default();
    let Some(field) = fields.next_back() else {
        return if root == STUB { format!("util.{root}") } else { format!("types.{root}") };
    };
    let is_item = matches!(path.last(), Some(Place::Item(_)));
    match wanted {
        Wanted::Scalar(name) if !is_item => name.to_owned(),
        Wanted::Object if root == STUB => "struct { Version string }".to_owned(),
        // The only list with its own type.
        Wanted::List if field == "httpHeaders" => "types.HTTPHeaders".to_owned(),
        Wanted::List => format!("[]types.{}", element(version, section, path.len(), field)),
        Wanted::Scalar(_) | Wanted::Object => format!("types.{}", element(version, section, path.len(), field)),
    }
}

/// What Ignition reads a version into.
pub(crate) const STUB: &str = "versionStub";
/// What Ignition reads a config into.
pub(crate) const CONFIG: &str = "Config";

/// The type of a field, or of what is in it if that is a list.
fn element(version: Version, section: &str, depth: usize, field: &'static str) -> &'static str {
    let is_first = version == Version::V3_0;
    match field {
        "append" | "contents" if is_first => "FileContents",
        "certificateAuthorities" if is_first => "CaReference",
        "merge" | "replace" if is_first => "ConfigReference",
        "append" | "contents" | "certificateAuthorities" | "merge" | "replace" | "keyFile" => "Resource",
        "cex" => "Cex",
        "clevis" => "Clevis",
        "config" => "IgnitionConfig",
        "custom" => "ClevisCustom",
        "devices" => "Device",
        "directories" => "Directory",
        "disks" => "Disk",
        "dropins" => "Dropin",
        "files" => "File",
        "filesystems" => "Filesystem",
        "group" => "NodeGroup",
        // Those of a user are four steps down: passwd, users, its index, groups.
        "groups" if depth >= 4 => "Group",
        "groups" => "PasswdGroup",
        "httpHeaders" => "HTTPHeader",
        "ignition" => "Ignition",
        "kernelArguments" => "KernelArguments",
        "links" => "Link",
        "luks" => "Luks",
        "mountOptions" => "MountOption",
        "noProxy" => "NoProxyItem",
        "openOptions" => "OpenOption",
        "options" => match section {
            "filesystems" => "FilesystemOption",
            "luks" => "LuksOption",
            _ => "RaidOption",
        },
        "partitions" => "Partition",
        "passwd" => "Passwd",
        "proxy" => "Proxy",
        "raid" => "Raid",
        "security" => "Security",
        "shouldExist" | "shouldNotExist" => "KernelArgument",
        "sshAuthorizedKeys" => "SSHAuthorizedKey",
        "storage" => "Storage",
        "systemd" => "Systemd",
        "tang" => "Tang",
        "timeouts" => "Timeouts",
        "tls" => "TLS",
        "units" => "Unit",
        "user" => "NodeUser",
        "users" => "PasswdUser",
        "verification" => "Verification",
        field => field,
    }
}
