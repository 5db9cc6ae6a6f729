//! An Ignition config, whole: spec 3.0 to 3.7-experimental in one set of types, each field with the version it came with
//! (docs/compatibility.md#ignition-schema). Text is borrowed from the document, so that the data in a config of many megabytes are not
//! copied.

pub(crate) mod go_types;
pub(crate) mod part;
pub(crate) mod shape;
pub(crate) mod version;

use crate::json::{Kind, Value};
use crate::report::Walk;
use part::{Decoder, Keyed, Part, Seen, parts};
pub use part::{Sequence, Text};
use std::{borrow::Cow, collections::HashSet};
pub use version::{Version, VersionError};

parts! {
    struct Document<'a> {
        /// Version, other configs, security, proxy.
        ignition: Ignition<'a> = "ignition",
        /// What the kernel is told.
        kernel_arguments: KernelArguments<'a> = "kernelArguments" since V3_3,
        passwd: Passwd<'a> = "passwd",
        /// Disks and what is on them.
        storage: Storage<'a> = "storage",
        /// Units.
        systemd: Systemd<'a> = "systemd",
    }

    struct Ignition<'a> {
        config: References<'a> = "config",
        /// For what is fetched.
        proxy: Proxy<'a> = "proxy" since V3_1,
        /// For what is fetched.
        security: Security<'a> = "security",
        /// For what is fetched.
        timeouts: Timeouts = "timeouts",
        /// Of the specification.
        version: Text<'a> = "version",
    }

    /// `ignition.config`.
    struct References<'a> {
        /// Children of this config, in order.
        merge: Vec<Reference<'a>> = "merge",
        /// Takes this config's place.
        replace: Reference<'a> = "replace",
    }

    /// `ignition.proxy`.
    struct Proxy<'a> {
        http_proxy: Option<Text<'a>> = "httpProxy",
        https_proxy: Option<Text<'a>> = "httpsProxy",
        /// Hosts that are asked directly.
        no_proxy: Vec<Text<'a>> = "noProxy",
    }

    /// `ignition.security`.
    struct Security<'a> {
        tls: Tls<'a> = "tls",
    }

    /// `ignition.security.tls`.
    struct Tls<'a> {
        /// Trusted in addition to the system's own.
        certificate_authorities: Vec<Reference<'a>> = "certificateAuthorities",
    }

    /// Another config or a certificate.
    struct Reference<'a> {
        /// `gzip`, or nothing.
        compression: Option<Text<'a>> = "compression" since V3_1,
        /// Sent with the request.
        http_headers: Vec<HttpHeader<'a>> = "httpHeaders" since V3_1,
        /// URL.
        source: Option<Text<'a>> = "source",
        verification: Verification<'a> = "verification",
    }

    /// A file's contents, or a key file.
    struct Resource<'a> {
        /// `gzip`, or nothing.
        compression: Option<Text<'a>> = "compression",
        /// Sent with the request.
        http_headers: Vec<HttpHeader<'a>> = "httpHeaders" since V3_1,
        /// URL.
        source: Option<Text<'a>> = "source",
        verification: Verification<'a> = "verification",
    }

    struct HttpHeader<'a> {
        name: Text<'a> = "name",
        /// Its value; none removes the parent's.
        value: Option<Text<'a>> = "value",
    }

    struct Verification<'a> {
        /// `sha512-` or `sha256-` and the sum in hexadecimal.
        hash: Option<Text<'a>> = "hash",
    }

    /// `kernelArguments`.
    struct KernelArguments<'a> before_merge drop_moved {
        /// Added where missing.
        should_exist: Vec<Text<'a>> = "shouldExist" in "argument",
        /// Removed.
        should_not_exist: Vec<Text<'a>> = "shouldNotExist" in "argument",
    }

    struct Passwd<'a> {
        groups: Vec<PasswdGroup<'a>> = "groups",
        users: Vec<PasswdUser<'a>> = "users",
    }

    struct PasswdGroup<'a> {
        gid: Option<i64> = "gid",
        name: Text<'a> = "name",
        password_hash: Option<Text<'a>> = "passwordHash",
        /// False deletes it.
        should_exist: Option<bool> = "shouldExist" since V3_2,
        /// A number from the system's range.
        system: Option<bool> = "system",
    }

    struct PasswdUser<'a> {
        gecos: Option<Text<'a>> = "gecos",
        groups: Vec<Text<'a>> = "groups",
        home_dir: Option<Text<'a>> = "homeDir",
        name: Text<'a> = "name",
        /// Leave out the home directory.
        no_create_home: Option<bool> = "noCreateHome",
        /// Leave it out of lastlog and faillog.
        no_log_init: Option<bool> = "noLogInit",
        /// Make no group of its name.
        no_user_group: Option<bool> = "noUserGroup",
        password_hash: Option<Text<'a>> = "passwordHash",
        primary_group: Option<Text<'a>> = "primaryGroup",
        shell: Option<Text<'a>> = "shell",
        /// False deletes it.
        should_exist: Option<bool> = "shouldExist" since V3_2,
        ssh_authorized_keys: Vec<Text<'a>> = "sshAuthorizedKeys",
        /// A number from the system's range.
        system: Option<bool> = "system",
        uid: Option<i64> = "uid",
    }

    struct Storage<'a> before_merge drop_moved {
        directories: Vec<Directory<'a>> = "directories" in "node",
        disks: Vec<Disk<'a>> = "disks",
        files: Vec<File<'a>> = "files" in "node",
        /// File systems.
        filesystems: Vec<Filesystem<'a>> = "filesystems",
        links: Vec<Link<'a>> = "links" in "node",
        luks: Vec<Luks<'a>> = "luks" since V3_2,
        raid: Vec<Raid<'a>> = "raid",
    }

    /// Whose a file is.
    struct Owner<'a> {
        /// Number.
        id: Option<i64> = "id",
        name: Option<Text<'a>> = "name",
    }

    struct Directory<'a> {
        group: Owner<'a> = "group",
        /// Replace what is there.
        overwrite: Option<bool> = "overwrite",
        /// Absolute.
        path: Text<'a> = "path",
        user: Owner<'a> = "user",
        /// Permission bits.
        mode: Option<i64> = "mode",
    }

    struct File<'a> {
        group: Owner<'a> = "group",
        /// Replace what is there.
        overwrite: Option<bool> = "overwrite",
        /// Absolute.
        path: Text<'a> = "path",
        user: Owner<'a> = "user",
        /// Appended to the contents, in order.
        append: Sequence<Resource<'a>> = "append",
        contents: Resource<'a> = "contents",
        /// Permission bits.
        mode: Option<i64> = "mode",
    }

    struct Link<'a> {
        group: Owner<'a> = "group",
        /// Replace what is there.
        overwrite: Option<bool> = "overwrite",
        /// Absolute.
        path: Text<'a> = "path",
        user: Owner<'a> = "user",
        hard: Option<bool> = "hard",
        target: Option<Text<'a>> = "target",
    }

    /// A disk's partition table.
    struct Disk<'a> {
        device: Text<'a> = "device",
        /// In any order.
        partitions: Vec<Partition<'a>> = "partitions",
        /// Begin with an empty one.
        wipe_table: Option<bool> = "wipeTable",
    }

    struct Partition<'a> {
        /// Its own GUID.
        guid: Option<Text<'a>> = "guid",
        label: Option<Text<'a>> = "label",
        /// Its number; 0 takes the next.
        number: i64 = "number",
        /// Resize it to what it should be.
        resize: Option<bool> = "resize" since V3_2,
        /// False deletes it.
        should_exist: Option<bool> = "shouldExist",
        size_mib: Option<i64> = "sizeMiB",
        /// Where it begins.
        start_mib: Option<i64> = "startMiB",
        type_guid: Option<Text<'a>> = "typeGuid",
        /// Replace one that differs.
        wipe_partition_entry: Option<bool> = "wipePartitionEntry",
    }

    struct Filesystem<'a> {
        device: Text<'a> = "device",
        format: Option<Text<'a>> = "format",
        label: Option<Text<'a>> = "label",
        mount_options: Sequence<Text<'a>> = "mountOptions" since V3_1,
        /// Options for creating it.
        options: Sequence<Text<'a>> = "options",
        /// Where it is mounted while files are written.
        path: Option<Text<'a>> = "path",
        uuid: Option<Text<'a>> = "uuid",
        /// Recreate it in any case.
        wipe_filesystem: Option<bool> = "wipeFilesystem",
    }

    struct Luks<'a> {
        /// What opens it automatically.
        cex: Cex = "cex" since V3_5,
        /// What opens it automatically.
        clevis: Clevis<'a> = "clevis",
        device: Option<Text<'a>> = "device",
        /// Pass discards on.
        discard: Option<bool> = "discard" since V3_4,
        /// What opens it.
        key_file: Resource<'a> = "keyFile",
        /// Its name on disk.
        label: Option<Text<'a>> = "label",
        /// Its name when open.
        name: Text<'a> = "name",
        open_options: Vec<Text<'a>> = "openOptions" since V3_4,
        /// Options for creating it.
        options: Sequence<Text<'a>> = "options",
        uuid: Option<Text<'a>> = "uuid",
        /// Recreate it in any case.
        wipe_volume: Option<bool> = "wipeVolume",
    }

    /// What opens an encrypted device without a passphrase.
    struct Clevis<'a> {
        custom: ClevisCustom<'a> = "custom",
        tang: Vec<Tang<'a>> = "tang",
        /// How many of them suffice.
        threshold: Option<i64> = "threshold",
        /// The machine's TPM.
        tpm2: Option<bool> = "tpm2",
    }

    /// A pin by hand.
    struct ClevisCustom<'a> {
        config: Option<Text<'a>> = "config",
        /// Whether it needs the network.
        needs_network: Option<bool> = "needsNetwork",
        pin: Option<Text<'a>> = "pin",
    }

    struct Tang<'a> {
        /// Its keys, as JSON.
        advertisement: Option<Text<'a>> = "advertisement" since V3_4,
        /// Of its key.
        thumbprint: Option<Text<'a>> = "thumbprint",
        url: Text<'a> = "url",
    }

    struct Raid<'a> {
        devices: Vec<Text<'a>> = "devices",
        level: Option<Text<'a>> = "level",
        name: Text<'a> = "name",
        /// Options for creating it.
        options: Sequence<Text<'a>> = "options",
        /// Members that wait.
        spares: Option<i64> = "spares",
    }

    struct Systemd<'a> {
        units: Vec<Unit<'a>> = "units",
    }

    struct Unit<'a> {
        /// Its file.
        contents: Option<Text<'a>> = "contents",
        /// Files beside it.
        dropins: Vec<Dropin<'a>> = "dropins",
        /// Started at boot.
        enabled: Option<bool> = "enabled",
        /// Never started.
        mask: Option<bool> = "mask",
        /// With its suffix.
        name: Text<'a> = "name",
    }

    /// A file beside a unit's.
    struct Dropin<'a> {
        contents: Option<Text<'a>> = "contents",
        /// Ends in `.conf`.
        name: Text<'a> = "name",
    }

    /// `ignition.timeouts`, in seconds.
    struct Timeouts {
        /// For an answer's head.
        http_response_headers: Option<i64> = "httpResponseHeaders",
        /// For all of it.
        http_total: Option<i64> = "httpTotal",
    }

    /// Crypto Express cards of IBM Z.
    struct Cex {
        /// Whether they open the device.
        enabled: Option<bool> = "enabled",
    }
}

/// An entry's key is the text of this field; a child's entry of the same key is merged into it.
macro_rules! keyed {
    ($($name:ident by $key:ident,)*) => {$(
        impl Keyed for $name<'_> {
            const KEYS: &'static [&'static str] = &[stringify!($key)];

            fn key(&self) -> Cow<'_, str> {
                Cow::Borrowed(&self.$key)
            }

            fn merge_entry(self, child: Self) -> Option<Self> {
                Some(self.merge(child))
            }
        }
    )*};
}

keyed! {
    PasswdGroup by name, PasswdUser by name, Directory by path, Disk by device, File by path, Filesystem by device, Link by path,
    Luks by name, Tang by url, Raid by name, Unit by name, Dropin by name,
}

impl Keyed for Reference<'_> {
    const KEYS: &'static [&'static str] = &["source"];

    fn key(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.source.as_deref().unwrap_or_default())
    }

    fn merge_entry(self, child: Self) -> Option<Self> {
        Some(self.merge(child))
    }
}

impl Keyed for HttpHeader<'_> {
    const KEYS: &'static [&'static str] = &["name"];

    fn key(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn merge_entry(self, child: Self) -> Option<Self> {
        child.value.is_some().then(|| self.merge(child))
    }
}

impl Keyed for Partition<'_> {
    const KEYS: &'static [&'static str] = &["number", "label"];

    fn key(&self) -> Cow<'_, str> {
        Cow::Owned(match self.number {
            0 => format!("label:{}", self.label.as_deref().unwrap_or_default()),
            number => format!("number:{number}"),
        })
    }

    fn merge_entry(self, child: Self) -> Option<Self> {
        Some(self.merge(child))
    }
}

/// Drops what the child has in another list of the same group.
fn drop_moved<T: Keyed>(parent: &mut Vec<T>, child: &[T], others: &HashSet<Cow<'_, str>>) {
    let own: HashSet<_> = child.iter().map(Keyed::key).collect();
    parent.retain(|entry| own.contains(&entry.key()) || !others.contains(&entry.key()));
}

fn keys<T: Keyed>(list: &[T]) -> impl Iterator<Item = Cow<'_, str>> {
    list.iter().map(Keyed::key)
}

impl Storage<'_> {
    fn drop_moved(&mut self, child: &Self) {
        let (directories, files, links) = (&child.directories, &child.files, &child.links);
        let all: HashSet<_> = keys(directories).chain(keys(files)).chain(keys(links)).collect();
        drop_moved(&mut self.directories, directories, &all);
        drop_moved(&mut self.files, files, &all);
        drop_moved(&mut self.links, links, &all);
    }
}

impl KernelArguments<'_> {
    fn drop_moved(&mut self, child: &Self) {
        let all: HashSet<_> = keys(&child.should_exist).chain(keys(&child.should_not_exist)).collect();
        drop_moved(&mut self.should_exist, &child.should_exist, &all);
        drop_moved(&mut self.should_not_exist, &child.should_not_exist, &all);
    }
}

impl<'a> Document<'a> {
    /// This config with what `child` changes in it (docs/compatibility.md#ignition-merge).
    pub fn merge(self, child: Self) -> Self {
        Part::merge(self, child)
    }

    /// Compact JSON, fields in alphabetical order, without what is empty.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

impl std::fmt::Debug for Document<'_> {
    /// What is in it may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Document({})", self.ignition.version)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
