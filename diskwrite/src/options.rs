//! What a caller asks for.

use crate::source::osmet::Osmet;
use crate::trust::Trust;
use api::http::{HttpConfig, public_url};
use kernel::Cancel;
use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf, time::Duration};

/// The Ignition platform that images are made for.
pub(crate) const METAL: &str = "metal";

/// Where an image comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    /// An `http://` or `https://` URL.
    Url(String),
    /// The image inside the live system that runs.
    Osmet(Osmet),
    /// Standard input, until it ends.
    #[default]
    Stdin,
}

impl fmt::Display for Source {
    /// The path, `stdin`, or the URL without what may be secret in it: user, password, query and fragment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Osmet(osmet) => osmet.fmt(f),
            Self::Stdin => f.write_str("stdin"),
            Self::Url(url) => f.write_str(&public_url(url)),
        }
    }
}

/// How often a request to a server that does not answer is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retries {
    /// As long as less than the stall timeout has passed without a byte.
    #[default]
    UntilStalled,
    /// This many times before it has answered at all; afterwards as above.
    Count(u32),
    /// Forever.
    Forever,
}

/// Where the first boot is to find network keyfiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPlace {
    /// Where the image looks for them, if its initramfs shows that; else in the initramfs.
    #[default]
    Auto,
    /// In a directory of the boot file system.
    Boot,
    /// In the initramfs, which has them before any disk is found.
    Initramfs,
}

/// What the first boot is to find changed, and what of the disk stays: that much a service may ask for as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Kernel arguments to append, in order, each as it should stand on the command line.
    pub append_kargs: Vec<String>,
    /// Kernel arguments to remove, each compared as a whole; removed before any is appended.
    pub delete_kargs: Vec<String>,
    /// Directory whose regular files, NetworkManager keyfiles, are copied for the first boot.
    pub network_dir: Option<PathBuf>,
    /// Partitions to keep, by GPT name: shell patterns.
    pub save_partlabels: Vec<String>,
    /// Partitions to keep, by number: `N`, `A-B`, `A-`, `-B`.
    pub save_partindexes: Vec<String>,
}

/// One installation.
#[derive(Clone)]
pub struct InstallOptions {
    /// The image: raw, gzip, xz or zstd, told apart by its first bytes.
    pub source: Source,
    /// TLS for an image by URL; proxies come from the environment.
    pub http: HttpConfig,
    /// What must vouch for the image.
    pub trust: Trust,
    /// How patient to be with a server.
    pub retries: Retries,
    /// The disk: a whole disk's device node or a link to one.
    pub device: PathBuf,
    /// The config to put on the boot file system as it is: Ignition, or Butane for images whose Ignition reads it.
    pub ignition: Option<Vec<u8>>,
    /// `sha256-HEX` or `sha512-HEX` of the Ignition config.
    pub ignition_hash: Option<String>,
    /// The image's Ignition platform, when not `metal`.
    pub platform: Option<String>,
    /// Consoles of kernel and boot loader, such as `ttyS0,115200n8`.
    pub consoles: Vec<String>,
    /// Kernel arguments for the first boot only.
    pub firstboot_args: Option<String>,
    /// What the first boot is to find changed, and what of the disk stays.
    pub changes: Changes,
    /// Where the first boot finds what is in [`Changes::network_dir`].
    pub network_place: NetworkPlace,
    /// Give the disk a random GUID in place of the image's, which is the same on every disk, and put the backup table at the
    /// disk's end; first boot does both otherwise.
    pub new_disk_guid: bool,
    /// Read back what was written and compare.
    pub read_back: bool,
    /// After a failure keep what was written instead of clearing the partition table.
    pub preserve_on_error: bool,
    /// A server that sends nothing new for this long has failed.
    pub stall_timeout: Duration,
    /// Set to stop: the disk's table is cleared and the call returns.
    pub cancel: Cancel,
}

impl InstallOptions {
    /// Whether anything on the boot file system is to be changed.
    pub(crate) fn configures_boot(&self) -> bool {
        self.ignition.is_some()
            || self.platform.as_deref().is_some_and(|platform| platform != METAL)
            || !self.consoles.is_empty()
            || self.firstboot_args.is_some()
            || self.changes.network_dir.is_some()
            || !self.changes.append_kargs.is_empty()
            || !self.changes.delete_kargs.is_empty()
    }

    pub(crate) fn cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl Default for InstallOptions {
    /// Reads stdin, changes nothing on the boot file system, waits ten minutes for a silent server. The device is empty
    /// and must be set.
    fn default() -> Self {
        Self {
            source: Source::default(),
            http: HttpConfig::default(),
            trust: Trust::default(),
            retries: Retries::default(),
            device: PathBuf::new(),
            ignition: None,
            ignition_hash: None,
            platform: None,
            consoles: Vec::new(),
            firstboot_args: None,
            changes: Changes::default(),
            network_place: NetworkPlace::default(),
            new_disk_guid: false,
            read_back: true,
            preserve_on_error: false,
            stall_timeout: Duration::from_secs(600),
            cancel: Cancel::default(),
        }
    }
}

impl fmt::Debug for InstallOptions {
    /// Of the Ignition config only its length: it holds keys and pull secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstallOptions")
            .field("source", &format_args!("{}", self.source))
            .field("http", &self.http)
            .field("trust", &self.trust)
            .field("retries", &self.retries)
            .field("device", &self.device)
            .field("ignition_bytes", &self.ignition.as_ref().map(Vec::len))
            .field("ignition_hash", &self.ignition_hash)
            .field("platform", &self.platform)
            .field("consoles", &self.consoles)
            .field("firstboot_args", &self.firstboot_args)
            .field("changes", &self.changes)
            .field("network_place", &self.network_place)
            .field("new_disk_guid", &self.new_disk_guid)
            .field("read_back", &self.read_back)
            .field("preserve_on_error", &self.preserve_on_error)
            .field("stall_timeout", &self.stall_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_url_holds_no_secret() {
        let displayed = |url: &str| Source::Url(url.into()).to_string();
        assert_eq!(displayed("https://u:p@host:8443/a/b.xz?sig=x#y"), "https://host:8443/a/b.xz");
        assert_eq!(displayed("http://host"), "http://host");
        assert_eq!(displayed("http://host/a@b"), "http://host/a@b");
        assert_eq!(displayed("nonsense"), "nonsense");
    }

    #[test]
    fn debug_shows_no_ignition() {
        let options = InstallOptions { ignition: Some(b"{\"secret\":1}".to_vec()), ..Default::default() };
        let text = format!("{options:?}");
        assert!(text.contains("ignition_bytes: Some(12)") && !text.contains("secret"), "{text}");
    }
}
