//! The keys of Ignition configs in the crate ignition-config 0.6: their kinds, how missing ones are written, and their versions 3.x.
//! Each table is in alphabetical order.

use std::ops::RangeInclusive;

/// What a key holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// Text or null, in a list.
    MaybeText,
    Number,
    Flag,
    List(&'static Kind),
    Table(&'static Table),
}

/// How a missing key is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is required.
    Error,
    /// It is written as null.
    Null,
    /// It is omitted.
    Nothing,
}

/// The keys of an object.
pub(super) struct Table {
    /// Its name in errors.
    pub name: &'static str,
    pub fields: &'static [Field],
}

pub(super) struct Field {
    pub key: &'static str,
    pub kind: Kind,
    pub missing: Missing,
    /// The minor versions that have it.
    pub versions: RangeInclusive<u8>,
}

const ALL: RangeInclusive<u8> = 0..=6;

const fn needed(key: &'static str, kind: Kind, versions: RangeInclusive<u8>) -> Field {
    Field { key, kind, missing: Missing::Error, versions }
}

const fn null(key: &'static str, kind: Kind, versions: RangeInclusive<u8>) -> Field {
    Field { key, kind, missing: Missing::Null, versions }
}

const fn maybe(key: &'static str, kind: Kind, versions: RangeInclusive<u8>) -> Field {
    Field { key, kind, missing: Missing::Nothing, versions }
}

use Kind::{Flag as FLAG, Number as NUMBER, Text as TEXT};
const TEXTS: Kind = Kind::List(&TEXT);

pub(super) static CONFIG: Table = Table {
    name: "Config",
    fields: &[
        needed("ignition", Kind::Table(&IGNITION), 0..=6),
        maybe("kernelArguments", Kind::Table(&KERNEL_ARGUMENTS), 3..=6),
        maybe("passwd", Kind::Table(&PASSWD), ALL),
        maybe("storage", Kind::Table(&STORAGE), ALL),
        maybe("systemd", Kind::Table(&SYSTEMD), ALL),
    ],
};

static IGNITION: Table = Table {
    name: "Ignition",
    fields: &[
        maybe("config", Kind::Table(&IGNITION_CONFIG), ALL),
        maybe("proxy", Kind::Table(&PROXY), 1..=6),
        maybe("security", Kind::Table(&SECURITY), ALL),
        maybe("timeouts", Kind::Table(&TIMEOUTS), ALL),
        maybe("version", TEXT, 0..=3),
        needed("version", TEXT, 4..=6),
    ],
};

static IGNITION_CONFIG: Table = Table {
    name: "IgnitionConfig",
    fields: &[
        maybe("merge", Kind::List(&Kind::Table(&CONFIG_REFERENCE)), 0..=0),
        maybe("merge", Kind::List(&Kind::Table(&RESOURCE)), 1..=6),
        maybe("replace", Kind::Table(&CONFIG_REFERENCE), 0..=0),
        maybe("replace", Kind::Table(&RESOURCE), 1..=6),
    ],
};

static CONFIG_REFERENCE: Table = Table {
    name: "ConfigReference",
    fields: &[null("source", TEXT, ALL), maybe("verification", Kind::Table(&VERIFICATION), ALL)],
};

static CA_REFERENCE: Table = Table {
    name: "CaReference",
    fields: &[needed("source", TEXT, ALL), maybe("verification", Kind::Table(&VERIFICATION), ALL)],
};

static FILE_CONTENTS: Table = Table {
    name: "FileContents",
    fields: &[
        null("compression", TEXT, ALL),
        null("source", TEXT, ALL),
        maybe("verification", Kind::Table(&VERIFICATION), ALL),
    ],
};

static RESOURCE: Table = Table {
    name: "Resource",
    fields: &[
        null("compression", TEXT, ALL),
        maybe("httpHeaders", Kind::List(&Kind::Table(&HTTP_HEADER)), ALL),
        null("source", TEXT, ALL),
        maybe("verification", Kind::Table(&VERIFICATION), ALL),
    ],
};

static HTTP_HEADER: Table =
    Table { name: "HttpHeadersItem", fields: &[needed("name", TEXT, ALL), null("value", TEXT, ALL)] };

static VERIFICATION: Table = Table { name: "Verification", fields: &[null("hash", TEXT, ALL)] };

static PROXY: Table = Table {
    name: "Proxy",
    fields: &[
        null("httpProxy", TEXT, ALL),
        null("httpsProxy", TEXT, ALL),
        maybe("noProxy", Kind::List(&Kind::MaybeText), 1..=3),
        maybe("noProxy", TEXTS, 4..=6),
    ],
};

static SECURITY: Table = Table { name: "Security", fields: &[maybe("tls", Kind::Table(&TLS), ALL)] };

static TLS: Table = Table {
    name: "SecurityTls",
    fields: &[
        maybe("certificateAuthorities", Kind::List(&Kind::Table(&CA_REFERENCE)), 0..=0),
        maybe("certificateAuthorities", Kind::List(&Kind::Table(&RESOURCE)), 1..=6),
    ],
};

static TIMEOUTS: Table =
    Table { name: "Timeouts", fields: &[null("httpResponseHeaders", NUMBER, ALL), null("httpTotal", NUMBER, ALL)] };

static KERNEL_ARGUMENTS: Table =
    Table { name: "KernelArguments", fields: &[maybe("shouldExist", TEXTS, ALL), maybe("shouldNotExist", TEXTS, ALL)] };

static PASSWD: Table = Table {
    name: "Passwd",
    fields: &[
        maybe("groups", Kind::List(&Kind::Table(&GROUP)), ALL),
        maybe("users", Kind::List(&Kind::Table(&USER)), ALL),
    ],
};

static GROUP: Table = Table {
    name: "Group",
    fields: &[
        null("gid", NUMBER, ALL),
        needed("name", TEXT, ALL),
        null("passwordHash", TEXT, ALL),
        null("shouldExist", FLAG, 2..=6),
        null("system", FLAG, ALL),
    ],
};

static USER: Table = Table {
    name: "User",
    fields: &[
        null("gecos", TEXT, ALL),
        maybe("groups", TEXTS, ALL),
        null("homeDir", TEXT, ALL),
        needed("name", TEXT, ALL),
        null("noCreateHome", FLAG, ALL),
        null("noLogInit", FLAG, ALL),
        null("noUserGroup", FLAG, ALL),
        null("passwordHash", TEXT, ALL),
        null("primaryGroup", TEXT, ALL),
        null("shell", TEXT, ALL),
        null("shouldExist", FLAG, 2..=6),
        maybe("sshAuthorizedKeys", TEXTS, ALL),
        null("system", FLAG, ALL),
        null("uid", NUMBER, ALL),
    ],
};

static STORAGE: Table = Table {
    name: "Storage",
    fields: &[
        maybe("directories", Kind::List(&Kind::Table(&DIRECTORY)), ALL),
        maybe("disks", Kind::List(&Kind::Table(&DISK)), ALL),
        maybe("files", Kind::List(&Kind::Table(&FILE)), ALL),
        maybe("filesystems", Kind::List(&Kind::Table(&FILESYSTEM)), ALL),
        maybe("links", Kind::List(&Kind::Table(&LINK)), ALL),
        maybe("luks", Kind::List(&Kind::Table(&LUKS)), 2..=6),
        maybe("raid", Kind::List(&Kind::Table(&RAID)), ALL),
    ],
};

static DIRECTORY: Table = Table {
    name: "Directory",
    fields: &[
        maybe("group", Kind::Table(&NODE_GROUP), ALL),
        null("mode", NUMBER, ALL),
        null("overwrite", FLAG, ALL),
        needed("path", TEXT, ALL),
        maybe("user", Kind::Table(&NODE_USER), ALL),
    ],
};

static NODE_GROUP: Table = Table { name: "NodeGroup", fields: &[null("id", NUMBER, ALL), null("name", TEXT, ALL)] };

static NODE_USER: Table = Table { name: "NodeUser", fields: &[null("id", NUMBER, ALL), null("name", TEXT, ALL)] };

static DISK: Table = Table {
    name: "Disk",
    fields: &[
        needed("device", TEXT, ALL),
        maybe("partitions", Kind::List(&Kind::Table(&PARTITION)), ALL),
        null("wipeTable", FLAG, ALL),
    ],
};

static PARTITION: Table = Table {
    name: "Partition",
    fields: &[
        null("guid", TEXT, ALL),
        null("label", TEXT, ALL),
        maybe("number", NUMBER, ALL),
        null("resize", FLAG, 2..=6),
        null("shouldExist", FLAG, ALL),
        null("sizeMiB", NUMBER, ALL),
        null("startMiB", NUMBER, ALL),
        null("typeGuid", TEXT, ALL),
        null("wipePartitionEntry", FLAG, ALL),
    ],
};

static FILE: Table = Table {
    name: "File",
    fields: &[
        maybe("append", Kind::List(&Kind::Table(&FILE_CONTENTS)), 0..=0),
        maybe("append", Kind::List(&Kind::Table(&RESOURCE)), 1..=6),
        maybe("contents", Kind::Table(&FILE_CONTENTS), 0..=0),
        maybe("contents", Kind::Table(&RESOURCE), 1..=6),
        maybe("group", Kind::Table(&NODE_GROUP), ALL),
        null("mode", NUMBER, ALL),
        null("overwrite", FLAG, ALL),
        needed("path", TEXT, ALL),
        maybe("user", Kind::Table(&NODE_USER), ALL),
    ],
};

static FILESYSTEM: Table = Table {
    name: "Filesystem",
    fields: &[
        needed("device", TEXT, ALL),
        null("format", TEXT, ALL),
        null("label", TEXT, ALL),
        maybe("mountOptions", TEXTS, 1..=6),
        maybe("options", TEXTS, ALL),
        null("path", TEXT, ALL),
        null("uuid", TEXT, ALL),
        null("wipeFilesystem", FLAG, ALL),
    ],
};

static LINK: Table = Table {
    name: "Link",
    fields: &[
        maybe("group", Kind::Table(&NODE_GROUP), ALL),
        null("hard", FLAG, ALL),
        null("overwrite", FLAG, ALL),
        needed("path", TEXT, ALL),
        needed("target", TEXT, 0..=2),
        null("target", TEXT, 3..=6),
        maybe("user", Kind::Table(&NODE_USER), ALL),
    ],
};

static RAID: Table = Table {
    name: "Raid",
    fields: &[
        needed("devices", TEXTS, 0..=2),
        maybe("devices", TEXTS, 3..=6),
        needed("level", TEXT, 0..=2),
        null("level", TEXT, 3..=6),
        needed("name", TEXT, ALL),
        maybe("options", TEXTS, ALL),
        null("spares", NUMBER, ALL),
    ],
};

static LUKS: Table = Table {
    name: "Luks",
    fields: &[
        maybe("cex", Kind::Table(&CEX), 5..=6),
        null("clevis", Kind::Table(&LUKS_CLEVIS), 2..=2),
        maybe("clevis", Kind::Table(&CLEVIS), 3..=6),
        null("device", TEXT, ALL),
        null("discard", FLAG, 4..=6),
        maybe("keyFile", Kind::Table(&RESOURCE), ALL),
        null("label", TEXT, ALL),
        needed("name", TEXT, ALL),
        maybe("openOptions", TEXTS, 4..=6),
        maybe("options", TEXTS, ALL),
        null("uuid", TEXT, ALL),
        null("wipeVolume", FLAG, ALL),
    ],
};

static CEX: Table = Table { name: "Cex", fields: &[null("enabled", FLAG, ALL)] };

static LUKS_CLEVIS: Table = Table {
    name: "LuksClevis",
    fields: &[
        null("custom", Kind::Table(&LUKS_CLEVIS_CUSTOM), ALL),
        maybe("tang", Kind::List(&Kind::Table(&TANG)), ALL),
        null("threshold", NUMBER, ALL),
        null("tpm2", FLAG, ALL),
    ],
};

static CLEVIS: Table = Table {
    name: "Clevis",
    fields: &[
        maybe("custom", Kind::Table(&CLEVIS_CUSTOM), ALL),
        maybe("tang", Kind::List(&Kind::Table(&TANG)), ALL),
        null("threshold", NUMBER, ALL),
        null("tpm2", FLAG, ALL),
    ],
};

static LUKS_CLEVIS_CUSTOM: Table = Table {
    name: "LuksClevisCustom",
    fields: &[needed("config", TEXT, ALL), null("needsNetwork", FLAG, ALL), needed("pin", TEXT, ALL)],
};

static CLEVIS_CUSTOM: Table = Table {
    name: "ClevisCustom",
    fields: &[null("config", TEXT, ALL), null("needsNetwork", FLAG, ALL), null("pin", TEXT, ALL)],
};

static TANG: Table = Table {
    name: "Tang",
    fields: &[null("advertisement", TEXT, 4..=6), null("thumbprint", TEXT, ALL), maybe("url", TEXT, ALL)],
};

static SYSTEMD: Table = Table { name: "Systemd", fields: &[maybe("units", Kind::List(&Kind::Table(&UNIT)), ALL)] };

static UNIT: Table = Table {
    name: "Unit",
    fields: &[
        null("contents", TEXT, ALL),
        maybe("dropins", Kind::List(&Kind::Table(&DROPIN)), ALL),
        null("enabled", FLAG, ALL),
        null("mask", FLAG, ALL),
        needed("name", TEXT, ALL),
    ],
};

static DROPIN: Table = Table { name: "Dropin", fields: &[null("contents", TEXT, ALL), needed("name", TEXT, ALL)] };
