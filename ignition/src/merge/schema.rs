//! What merges how: the fields of spec 3.0 to 3.6, which differ between versions only in which of them exist.

use serde_json::Value;

/// A field of an object.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// What a field holds, and so how it merges.
pub(super) enum Kind {
    /// Text; the child's wins.
    Text,
    /// An integer; the child's wins.
    Number,
    /// A truth value; the child's wins.
    Bool,
    /// An object; merged field by field.
    Object(&'static [Field]),
    /// A list of objects; those of equal key merge.
    Keyed {
        /// What tells items apart.
        key: Key,
        /// Fields of an item.
        item: &'static [Field],
        /// Lists of the same object an item may move between.
        shared: &'static [&'static str],
    },
    /// A list of texts, each of them its own key.
    Strings {
        /// Lists of the same object an item may move between.
        shared: &'static [&'static str],
    },
    /// A list of texts, put end to end.
    Texts,
    /// A list of resources, put end to end.
    Resources,
}

impl Kind {
    /// The key of an item of such a list.
    pub(super) fn key_of(&self, item: &Value) -> String {
        match self {
            Self::Keyed { key, .. } => key.of(item),
            _ => item.as_str().unwrap_or_default().to_owned(),
        }
    }
}

/// What tells the items of a list apart.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// The text of this field, or nothing.
    Field(&'static str),
    /// A header's name; a header without value takes the parent's away.
    Header,
    /// A partition's number, or its label when the number is 0 or absent.
    Partition,
}

impl Key {
    pub(super) fn of(self, item: &Value) -> String {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        match self {
            Self::Field(name) => text(name).to_owned(),
            Self::Header => text("name").to_owned(),
            Self::Partition => match item.get("number").and_then(Value::as_i64) {
                None | Some(0) => format!("label:{}", text("label")),
                Some(number) => format!("number:{number}"),
            },
        }
    }
}

const fn text(name: &'static str) -> Field {
    Field { name, kind: Kind::Text }
}
const fn number(name: &'static str) -> Field {
    Field { name, kind: Kind::Number }
}
const fn boolean(name: &'static str) -> Field {
    Field { name, kind: Kind::Bool }
}
const fn texts(name: &'static str) -> Field {
    Field { name, kind: Kind::Texts }
}
const fn strings(name: &'static str) -> Field {
    Field { name, kind: Kind::Strings { shared: &[] } }
}
const fn object(name: &'static str, fields: &'static [Field]) -> Field {
    Field { name, kind: Kind::Object(fields) }
}
const fn keyed(name: &'static str, key: &'static str, item: &'static [Field]) -> Field {
    Field { name, kind: Kind::Keyed { key: Key::Field(key), item, shared: &[] } }
}
const fn node(name: &'static str, item: &'static [Field]) -> Field {
    const NODES: &[&str] = &["directories", "files", "links"];
    Field { name, kind: Kind::Keyed { key: Key::Field("path"), item, shared: NODES } }
}
const fn kernel_arguments(name: &'static str) -> Field {
    Field { name, kind: Kind::Strings { shared: &["shouldExist", "shouldNotExist"] } }
}

/// A whole config.
pub(super) const CONFIG: Kind = Kind::Object(&[
    object("ignition", IGNITION),
    object("kernelArguments", &[kernel_arguments("shouldExist"), kernel_arguments("shouldNotExist")]),
    object("passwd", &[keyed("groups", "name", GROUP), keyed("users", "name", USER)]),
    object("storage", STORAGE),
    object("systemd", &[keyed("units", "name", UNIT)]),
]);

const IGNITION: &[Field] = &[
    text("version"),
    object("config", &[keyed("merge", "source", RESOURCE), object("replace", RESOURCE)]),
    object("timeouts", &[number("httpResponseHeaders"), number("httpTotal")]),
    object("security", &[object("tls", &[keyed("certificateAuthorities", "source", RESOURCE)])]),
    object("proxy", &[text("httpProxy"), text("httpsProxy"), strings("noProxy")]),
];

/// A resource to be fetched.
pub(super) const RESOURCE: &[Field] = &[
    text("source"),
    text("compression"),
    Field {
        name: "httpHeaders",
        kind: Kind::Keyed { key: Key::Header, item: &[text("name"), text("value")], shared: &[] },
    },
    object("verification", &[text("hash")]),
];

const GROUP: &[Field] = &[text("name"), number("gid"), text("passwordHash"), boolean("shouldExist"), boolean("system")];

const USER: &[Field] = &[
    text("name"),
    text("passwordHash"),
    strings("sshAuthorizedKeys"),
    number("uid"),
    text("gecos"),
    text("homeDir"),
    boolean("noCreateHome"),
    text("primaryGroup"),
    strings("groups"),
    boolean("noUserGroup"),
    boolean("noLogInit"),
    text("shell"),
    boolean("shouldExist"),
    boolean("system"),
];

const UNIT: &[Field] = &[
    text("name"),
    boolean("enabled"),
    boolean("mask"),
    text("contents"),
    keyed("dropins", "name", &[text("name"), text("contents")]),
];

const STORAGE: &[Field] = &[
    keyed("disks", "device", DISK),
    keyed("raid", "name", RAID),
    keyed("luks", "name", LUKS),
    keyed("filesystems", "device", FILESYSTEM),
    node("files", FILE),
    node("directories", DIRECTORY),
    node("links", LINK),
];

const DISK: &[Field] = &[
    text("device"),
    boolean("wipeTable"),
    Field { name: "partitions", kind: Kind::Keyed { key: Key::Partition, item: PARTITION, shared: &[] } },
];

const PARTITION: &[Field] = &[
    text("label"),
    number("number"),
    number("sizeMiB"),
    number("startMiB"),
    text("typeGuid"),
    text("guid"),
    boolean("wipePartitionEntry"),
    boolean("shouldExist"),
    boolean("resize"),
];

const RAID: &[Field] = &[text("name"), text("level"), number("spares"), strings("devices"), texts("options")];

const LUKS: &[Field] = &[
    text("name"),
    text("device"),
    object("keyFile", RESOURCE),
    text("label"),
    text("uuid"),
    texts("options"),
    boolean("wipeVolume"),
    object("clevis", CLEVIS),
    boolean("discard"),
    strings("openOptions"),
    object("cex", &[boolean("enabled")]),
];

const CLEVIS: &[Field] = &[
    keyed("tang", "url", &[text("url"), text("thumbprint"), text("advertisement")]),
    boolean("tpm2"),
    number("threshold"),
    object("custom", &[text("pin"), text("config"), boolean("needsNetwork")]),
];

const FILESYSTEM: &[Field] = &[
    text("device"),
    text("format"),
    text("path"),
    boolean("wipeFilesystem"),
    text("label"),
    text("uuid"),
    texts("options"),
    texts("mountOptions"),
];

const OWNER: &[Field] = &[number("id"), text("name")];

const FILE: &[Field] = &[
    text("path"),
    boolean("overwrite"),
    object("user", OWNER),
    object("group", OWNER),
    number("mode"),
    object("contents", RESOURCE),
    Field { name: "append", kind: Kind::Resources },
];

const DIRECTORY: &[Field] =
    &[text("path"), boolean("overwrite"), object("user", OWNER), object("group", OWNER), number("mode")];

const LINK: &[Field] = &[
    text("path"),
    boolean("overwrite"),
    object("user", OWNER),
    object("group", OWNER),
    text("target"),
    boolean("hard"),
];
