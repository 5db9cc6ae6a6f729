//! What to install where: the options of `coreos-installer install` and ours, on the command line and in config files.
//!
//! One struct is both, as in coreos-installer (docs/compatibility.md#install-options): a key of a config file is an option's long
//! name, and what a config file says goes through the same parser as the command line.

use super::values::{self, CopyNetworkTo, FetchRetries, Sha256, StallTimeout};
use crate::{network::NETWORK_DIR, source::Choice};
use diskwrite::{Changes, InstallOptions, SignatureAt, Trust};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const SOURCE: &str = "Image";
const VERIFY: &str = "Verification";
const FIRST_BOOT: &str = "First boot";
const PARTITIONS: &str = "Partitions to keep";
const ADVANCED: &str = "Advanced";

/// The options: coreos-installer's in its order, which is that of the words they become, then ours. Those that a config file
/// must not have are skipped by serde.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct InstallConfig {
    /// YAML file with more options; may be repeated
    ///
    /// Each key is an option's long name. Its value is a string, a list of strings if the option may be repeated, or true
    /// for a flag. The disk's key is dest-device. Lists are joined; otherwise later files override earlier ones, and the
    /// command line overrides all.
    #[serde(skip)]
    #[arg(short, long, value_name = "PATH")]
    pub config_file: Vec<PathBuf>,
    /// Stream whose newest release is installed: stable, testing, next or another
    ///
    /// Without an option of this group, the image inside the live system is installed, or the stream 'stable' if it has
    /// none.
    #[arg(short, long, value_name = "NAME", help_heading = SOURCE, conflicts_with_all = ["image_file", "image_url"])]
    pub stream: Option<String>,
    /// Image to fetch by http or https: raw, gzip, xz or zstd
    #[arg(short = 'u', long, value_name = "URL", help_heading = SOURCE, conflicts_with_all = ["stream", "image_file"])]
    #[arg(value_parser = values::url)]
    pub image_url: Option<String>,
    /// Image file: raw, gzip, xz or zstd; '-' is standard input
    #[arg(short = 'f', long, value_name = "PATH", help_heading = SOURCE, conflicts_with_all = ["stream", "image_url"])]
    pub image_file: Option<PathBuf>,
    /// File with the Ignition config, or with Butane if the image's Ignition is 2.27 or newer
    #[arg(short, long, visible_alias = "ignition", value_name = "PATH", help_heading = FIRST_BOOT, conflicts_with = "ignition_url")]
    pub ignition_file: Option<PathBuf>,
    /// URL of the Ignition or Butane config, which is fetched now
    #[arg(short = 'I', long, value_name = "URL", help_heading = FIRST_BOOT, conflicts_with = "ignition_file")]
    #[arg(value_parser = values::any_url)]
    pub ignition_url: Option<String>,
    /// Hash that the Ignition config must have: sha256-HEX or sha512-HEX
    #[arg(long, value_name = "DIGEST", help_heading = FIRST_BOOT)]
    pub ignition_hash: Option<String>,
    /// Architecture of a stream's image [default: this machine's]
    #[arg(short, long, value_name = "NAME", help_heading = SOURCE)]
    pub architecture: Option<String>,
    /// Ignition platform of the installed system, such as qemu or vmware [default: metal]
    #[arg(short, long, value_name = "NAME", help_heading = FIRST_BOOT)]
    pub platform: Option<String>,
    /// Console of kernel and boot loader, such as ttyS0,115200n8 or tty0; may be repeated
    #[arg(long, value_name = "SPEC", help_heading = FIRST_BOOT)]
    pub console: Vec<String>,
    /// Kernel arguments for the first boot only
    #[serde(skip)]
    #[arg(long, value_name = "ARGS", hide = true)]
    pub firstboot_args: Option<String>,
    /// Kernel argument to add; may be repeated
    #[arg(long, value_name = "ARG", help_heading = FIRST_BOOT)]
    pub append_karg: Vec<String>,
    /// Kernel argument to remove; may be repeated
    #[arg(long, value_name = "ARG", help_heading = FIRST_BOOT)]
    pub delete_karg: Vec<String>,
    /// Copy this system's NetworkManager profiles
    #[arg(short = 'n', long, help_heading = FIRST_BOOT)]
    pub copy_network: bool,
    /// Directory of the profiles for --copy-network [default: /etc/NetworkManager/system-connections/]
    #[arg(long, value_name = "DIR", help_heading = FIRST_BOOT)]
    pub network_dir: Option<PathBuf>,
    /// Keep partitions whose GPT name matches this pattern; may be repeated or a comma list
    ///
    /// They stay where they are, whatever fails; they are renumbered if the image uses their numbers.
    #[arg(long, value_name = "GLOB", help_heading = PARTITIONS, value_delimiter = ',')]
    pub save_partlabel: Vec<String>,
    /// Keep partitions with this number: 5, 5-7, 5- or -7; may be repeated or a comma list
    #[arg(long, value_name = "NUMBERS", help_heading = PARTITIONS, value_delimiter = ',', allow_hyphen_values = true)]
    pub save_partindex: Vec<String>,
    /// Install only the image inside the live system
    #[arg(long, help_heading = SOURCE)]
    pub offline: bool,
    /// Accept an image without a signature; a bad signature is always refused
    #[arg(long, help_heading = VERIFY)]
    pub insecure: bool,
    /// Fetch the Ignition config by http without a hash
    #[arg(long, help_heading = FIRST_BOOT)]
    pub insecure_ignition: bool,
    /// Base URL of the streams' metadata [default: <https://builds.coreos.fedoraproject.org/streams/>]
    #[arg(long, value_name = "URL", help_heading = SOURCE, value_parser = values::url)]
    pub stream_base_url: Option<String>,
    /// After a failure leave the written data in place instead of clearing the partition table
    #[arg(long, help_heading = ADVANCED)]
    pub preserve_on_error: bool,
    /// How often to retry a server that does not answer, or 'infinite' [default: 0]
    ///
    /// A transfer that broke off is resumed until --stall-timeout is over.
    #[arg(long, value_name = "N", help_heading = SOURCE)]
    pub fetch_retries: Option<FetchRetries>,
    /// Secure boot of IBM Z
    #[arg(long, help_heading = ADVANCED)]
    pub secure_ipl: bool,

    /// Where the first boot finds the profiles of --copy-network [default: auto]
    #[arg(long, value_name = "PLACE", value_enum, help_heading = FIRST_BOOT)]
    pub copy_network_to: Option<CopyNetworkTo>,
    /// A server that sends nothing for this long has failed [default: 600]
    #[arg(long, value_name = "SECONDS", help_heading = SOURCE)]
    pub stall_timeout: Option<StallTimeout>,
    /// PEM bundle trusted for https in addition to the system's roots
    #[arg(long, value_name = "PATH", help_heading = SOURCE)]
    pub cacert: Option<PathBuf>,
    /// The image's signature: a path or URL [default: the image's with .sig added, or .minisig with --minisign-key]
    #[arg(long, value_name = "WHERE", help_heading = VERIFY)]
    pub signature: Option<String>,
    /// OpenPGP keys to trust besides those of Fedora and Red Hat; may be repeated
    ///
    /// Keys of Fedora and Red Hat are built in and read from /etc/pki/rpm-gpg. The log (-v) shows the signing key's owner and
    /// fingerprint.
    #[arg(long, value_name = "PATH", help_heading = VERIFY)]
    pub keyring: Vec<PathBuf>,
    /// Trust only the keys of --keyring
    #[arg(long, help_heading = VERIFY, requires = "keyring")]
    pub keyring_only: bool,
    /// minisign public key file, for a minisign signature
    #[arg(long, value_name = "PATH", help_heading = VERIFY, conflicts_with = "keyring")]
    pub minisign_key: Option<PathBuf>,
    /// SHA-256 that the image file must have
    #[arg(long, value_name = "HEX", help_heading = VERIFY)]
    pub sha256: Option<Sha256>,
    /// File with the SHA-256 of the image, as sha256sum writes it
    #[arg(long, value_name = "PATH", help_heading = VERIFY, conflicts_with = "sha256")]
    pub sha256_sums: Option<PathBuf>,
    /// Don't read the disk back and compare
    #[arg(long, help_heading = VERIFY)]
    pub no_verify: bool,
    /// Give the disk a random GUID and move its backup table to its end now, instead of at the first boot
    #[arg(long, help_heading = ADVANCED)]
    pub new_disk_guid: bool,
    /// The disk to install to, by a name in /dev/disk/by-id, a WWN or a serial number
    #[arg(long, value_name = "NAME", conflicts_with = "dest_device")]
    pub disk: Option<PathBuf>,
    /// The disk to install to: a device node or a link to one. Its contents are destroyed
    pub dest_device: Option<PathBuf>,
}

/// Why options that are each valid can't be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("destination device must be specified")]
    NoDevice,
    /// IBM Z's own.
    #[error(
        "--secure-ipl is for the boot loader of IBM Z (s390x), which this version does not write; this machine is {}",
        std::env::consts::ARCH
    )]
    SecureIpl,
}

impl InstallConfig {
    /// What is said of the image.
    pub fn choice(&self) -> Choice<'_> {
        Choice {
            image_file: self.image_file.as_ref(),
            image_url: self.image_url.as_deref(),
            offline: self.offline,
            stream: self.stream.as_deref(),
            architecture: self.architecture.as_deref(),
            stream_base_url: self.stream_base_url.as_deref(),
        }
    }

    /// Changes for the first boot, and what of the disk stays.
    pub fn changes(&self) -> Changes {
        let network_dir = || self.network_dir.clone().unwrap_or_else(|| NETWORK_DIR.into());
        Changes {
            append_kargs: self.append_karg.clone(),
            delete_kargs: self.delete_karg.clone(),
            network_dir: self.copy_network.then(network_dir),
            save_partlabels: self.save_partlabel.clone(),
            save_partindexes: self.save_partindex.clone(),
        }
    }

    /// The image writer's options, except the image and the Ignition config, which may have to be fetched.
    pub fn options(&self) -> Result<InstallOptions, ConfigError> {
        if self.secure_ipl {
            return Err(ConfigError::SecureIpl);
        }
        let device = self.dest_device.as_ref().or(self.disk.as_ref()).ok_or(ConfigError::NoDevice)?;
        let defaults = InstallOptions::default();
        Ok(InstallOptions {
            http: api::http::HttpConfig { ca_cert: self.cacert.clone(), insecure: false, proxies: None },
            trust: Trust {
                required: !self.insecure,
                signature: self.signature.as_deref().map(signature_at),
                keyrings: self.keyring.clone(),
                keyrings_only: self.keyring_only,
                minisign_key: self.minisign_key.clone(),
                sha256: self.sha256.map(|sum| sum.0),
                published_sha256: None,
                sha256_sums: self.sha256_sums.clone(),
            },
            retries: self.fetch_retries.unwrap_or_default().into(),
            device: device.clone(),
            ignition_hash: self.ignition_hash.clone(),
            // The image is for metal: nothing to change.
            platform: self.platform.clone().filter(|platform| platform != "metal"),
            consoles: self.console.clone(),
            firstboot_args: self.firstboot_args.clone(),
            changes: self.changes(),
            network_place: self.copy_network_to.unwrap_or_default().into(),
            new_disk_guid: self.new_disk_guid,
            read_back: !self.no_verify,
            preserve_on_error: self.preserve_on_error,
            stall_timeout: self.stall_timeout.map_or(defaults.stall_timeout, |timeout| timeout.0),
            ..defaults
        })
    }
}

fn signature_at(text: &str) -> SignatureAt {
    match values::url(text) {
        Ok(url) => SignatureAt::Url(url),
        Err(_) => SignatureAt::File(text.into()),
    }
}

/// Every option of docs/compatibility.md#install-options, and each of ours, by its long name, its short one and in a config file.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Install, parse_line};
    use clap::error::ErrorKind;
    use diskwrite::{NetworkPlace, Retries};
    use std::time::Duration;

    fn config(words: &[&str]) -> InstallConfig {
        parse_line(words).unwrap_or_else(|error| panic!("{words:?}: {error}")).config
    }

    fn refused(words: &[&str]) -> ErrorKind {
        parse_line(words).map(|_: Install| ()).expect_err(&words.join(" ")).kind()
    }

    /// What these words make the image writer do, the disk being /dev/loop9.
    fn options(words: &[&str]) -> InstallOptions {
        config(&[words, &["/dev/loop9"]].concat()).options().unwrap()
    }

    #[test]
    fn every_option_of_coreos_installer_is_understood_by_each_of_its_names() {
        const SUM: &str = "sha256-720a49720f0ddd4a599259e0007b0083e8998e31619c69c96681255a79f77a33";
        type Same = fn(&InstallConfig) -> bool;
        let table: [(&[&[&str]], Same); 24] = [
            (&[&["--config-file", "a", "-c", "b"]], |c| c.config_file == [PathBuf::from("a"), "b".into()]),
            (&[&["--stream", "x"], &["-s", "x"]], |c| c.stream.as_deref() == Some("x")),
            (&[&["--image-url", "http://h/i"], &["-u", "http://h/i"]], |c| {
                c.image_url.as_deref() == Some("http://h/i")
            }),
            (&[&["--image-file", "/i"], &["-f", "/i"]], |c| c.image_file == Some("/i".into())),
            (&[&["--ignition-file", "/c"], &["--ignition", "/c"], &["-i", "/c"]], |c| {
                c.ignition_file == Some("/c".into())
            }),
            (&[&["--ignition-url", "http://h/c"], &["-I", "http://h/c"]], |c| {
                c.ignition_url.as_deref() == Some("http://h/c")
            }),
            (&[&["--ignition-hash", SUM]], |c| c.ignition_hash.as_deref() == Some(SUM)),
            (&[&["--architecture", "s390x"], &["-a", "s390x"]], |c| c.architecture.as_deref() == Some("s390x")),
            (&[&["--platform", "qemu"], &["-p", "qemu"]], |c| c.platform.as_deref() == Some("qemu")),
            (&[&["--console", "tty0", "--console", "ttyS0"]], |c| c.console == ["tty0", "ttyS0"]),
            (&[&["--firstboot-args", "rd.neednet=1 ip=dhcp"]], |c| {
                c.firstboot_args.as_deref() == Some("rd.neednet=1 ip=dhcp")
            }),
            (&[&["--append-karg", "a=b", "--append-karg", "c d"]], |c| c.append_karg == ["a=b", "c d"]),
            (&[&["--delete-karg", "a,b", "--delete-karg", "c"]], |c| c.delete_karg == ["a,b", "c"]),
            (&[&["--copy-network"], &["-n"], &["-n", "-n"]], |c| c.copy_network),
            (&[&["--network-dir", "/nm"]], |c| c.network_dir == Some("/nm".into())),
            (&[&["--save-partlabel", "a,b*", "--save-partlabel", ""]], |c| c.save_partlabel == ["a", "b*", ""]),
            (&[&["--save-partindex", "-2,5-", "--save-partindex", "7-9"]], |c| c.save_partindex == ["-2", "5-", "7-9"]),
            (&[&["--offline"]], |c| c.offline),
            (&[&["--insecure"]], |c| c.insecure),
            (&[&["--insecure-ignition"]], |c| c.insecure_ignition),
            (&[&["--stream-base-url", "https://h/s/"]], |c| c.stream_base_url.as_deref() == Some("https://h/s/")),
            (&[&["--preserve-on-error"]], |c| c.preserve_on_error),
            (&[&["--fetch-retries", "infinite"]], |c| c.fetch_retries == Some(FetchRetries::Infinite)),
            (&[&["--secure-ipl"]], |c| c.secure_ipl),
        ];
        for (spellings, same) in table {
            for words in spellings {
                for line in [[words, &["/dev/loop9"][..]].concat(), [&["/dev/loop9"][..], words].concat()] {
                    let config = config(&line);
                    assert!(same(&config), "{line:?}: {config:?}");
                    assert_eq!(config.dest_device, Some("/dev/loop9".into()), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn options_become_what_the_image_writer_does() {
        let none = options(&[]);
        assert_eq!(none.device, PathBuf::from("/dev/loop9"));
        assert!(none.read_back && !none.new_disk_guid && !none.preserve_on_error && none.trust.required);
        assert_eq!((none.retries, none.stall_timeout), (Retries::Count(0), Duration::from_secs(600)));
        assert_eq!((none.platform, none.changes.network_dir, none.firstboot_args), (None, None, None));

        type Same = fn(&InstallOptions) -> bool;
        let table: [(&[&str], Same); 30] = [
            (&["--ignition-hash", "sha512-00"], |o| o.ignition_hash.as_deref() == Some("sha512-00")),
            (&["--platform", "vmware"], |o| o.platform.as_deref() == Some("vmware")),
            (&["--platform", "metal"], |o| o.platform.is_none()),
            (&["--console", "ttyS0,115200n8", "--console", "tty0"], |o| o.consoles == ["ttyS0,115200n8", "tty0"]),
            (&["--firstboot-args", "a b"], |o| o.firstboot_args.as_deref() == Some("a b")),
            (&["--append-karg", "a", "--append-karg", "b"], |o| o.changes.append_kargs == ["a", "b"]),
            (&["--delete-karg", "a"], |o| o.changes.delete_kargs == ["a"]),
            (&["-n"], |o| o.changes.network_dir == Some(NETWORK_DIR.into())),
            (&["-n", "--network-dir", "/nm"], |o| o.changes.network_dir == Some("/nm".into())),
            (&["--network-dir", "/nm"], |o| o.changes.network_dir.is_none()),
            (&["-n"], |o| o.network_place == NetworkPlace::Auto),
            (&["-n", "--copy-network-to", "boot"], |o| o.network_place == NetworkPlace::Boot),
            (&["--save-partlabel", "a,b"], |o| o.changes.save_partlabels == ["a", "b"]),
            (&["--save-partindex", "-3"], |o| o.changes.save_partindexes == ["-3"]),
            (&["--insecure"], |o| !o.trust.required),
            (&["--preserve-on-error"], |o| o.preserve_on_error),
            (&["--fetch-retries", "3"], |o| o.retries == Retries::Count(3)),
            (&["--fetch-retries", "infinite"], |o| o.retries == Retries::Forever),
            (&["--no-verify"], |o| !o.read_back),
            (&["--new-disk-guid"], |o| o.new_disk_guid),
            (&["--signature", "/s"], |o| o.trust.signature == Some(SignatureAt::File("/s".into()))),
            (&["--signature", "https://h/s"], |o| o.trust.signature == Some(SignatureAt::Url("https://h/s".into()))),
            (&["--sha256-sums", "/s"], |o| o.trust.sha256_sums == Some("/s".into())),
            (&["--keyring", "/a", "--keyring", "/b"], |o| o.trust.keyrings == [PathBuf::from("/a"), "/b".into()]),
            (&["--keyring", "/a"], |o| !o.trust.keyrings_only),
            (&["--keyring", "/a", "--keyring-only"], |o| o.trust.keyrings_only),
            (&["--minisign-key", "/k"], |o| o.trust.minisign_key == Some("/k".into())),
            (&["--sha256", "0101010101010101010101010101010101010101010101010101010101010101"], |o| {
                o.trust.sha256 == Some([1; 32])
            }),
            (&["--stall-timeout", "5"], |o| o.stall_timeout == Duration::from_secs(5)),
            (&["--cacert", "/ca"], |o| o.http.ca_cert == Some("/ca".into())),
        ];
        for (words, same) in table {
            let options = options(words);
            assert!(same(&options), "{words:?}: {options:?}");
        }
        assert_eq!(config(&["--disk", "wwn-0x5000"]).options().unwrap().device, PathBuf::from("wwn-0x5000"));
    }

    #[test]
    fn the_last_of_an_option_said_twice_wins() {
        let config =
            config(&["-s", "a", "--stream", "b", "--fetch-retries", "1", "--fetch-retries", "2", "--insecure", "/d"]);
        assert_eq!(config.stream.as_deref(), Some("b"));
        assert_eq!(config.fetch_retries, Some(FetchRetries::Count(2)));
    }

    #[test]
    fn what_does_not_go_together_is_wrong_usage() {
        let sources: [&[&str]; 3] = [&["-s", "stable"], &["-u", "http://h/i"], &["-f", "/i"]];
        for (index, first) in sources.iter().enumerate() {
            for second in sources.iter().skip(index + 1) {
                assert_eq!(refused(&[first, *second, &["/d"]].concat()), ErrorKind::ArgumentConflict, "{first:?}");
            }
        }
        for words in [
            &["-i", "/c", "-I", "http://h/c", "/d"][..],
            &["--disk", "a", "/d"],
            &["--keyring", "/a", "--minisign-key", "/b", "/d"],
            &["--request", "-", "/d"],
            &["--request", "-", "-f", "/i"],
            &["--request", "-", "--live"],
        ] {
            assert_eq!(refused(words), ErrorKind::ArgumentConflict, "{words:?}");
        }
        for words in [&[][..], &["-f", "/i"], &["--root", "/x", "/d"]] {
            assert_eq!(refused(words), ErrorKind::MissingRequiredArgument, "{words:?}");
        }
        assert_eq!(refused(&["/a", "/b"]), ErrorKind::UnknownArgument);
        assert_eq!(refused(&["--no-such", "/d"]), ErrorKind::UnknownArgument);
        for words in [
            &["--fetch-retries", "often", "/d"][..],
            &["--image-url", "ftp://h/i", "/d"],
            &["--image-url", "/i", "/d"],
            &["--ignition-url", "c.ign", "/d"],
            &["--stream-base-url", "h", "/d"],
            &["--sha256", "00", "/d"],
            &["--stall-timeout", "0", "/d"],
        ] {
            assert_eq!(refused(words), ErrorKind::ValueValidation, "{words:?}");
        }
    }

    #[test]
    fn secure_ipl_is_refused_with_the_reason() {
        let error = config(&["--secure-ipl", "/d"]).options().unwrap_err().to_string();
        assert!(error.contains("IBM Z (s390x)") && error.contains(std::env::consts::ARCH), "{error}");
        assert!(matches!(config(&["-c", "x"]).options(), Err(ConfigError::NoDevice)));
    }
}
