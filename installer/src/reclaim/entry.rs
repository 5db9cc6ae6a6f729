//! The loader entry of the discovery system (Boot Loader Specification, type 1).

use api::http::public_url;

/// Before any entry of an installed system: they are sorted by their file's name, descending, or by version.
const VERSION: u32 = 999;
/// Kernel arguments of a node on s390x that its discovery system needs too; the first of each name.
const KEPT_ON_S390X: [&str; 6] = ["ip", "nameserver", "rd.znet", "zfcp.allow_lun_scan", "rd.zfcp", "rd.dasd"];

/// Where the kernel runs; one of them boots by other means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// IBM Z, whose loader reads no entries at boot: zipl writes where the kernel is.
    S390x,
    /// All others.
    Other,
}

impl Architecture {
    /// The one this program is built for.
    pub fn of_this_program() -> Self {
        if cfg!(target_arch = "s390x") { Self::S390x } else { Self::Other }
    }
}

/// Something that can't stand in a loader entry.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// It would end the quotes or the line.
    #[error("rootfs_url {url} contains {character:?}, which a kernel argument can't contain")]
    Character {
        /// Without what may be secret.
        url: String,
        /// The first of them.
        character: char,
    },
    /// The entry on disk has been changed.
    #[error("the loader entry has no line that starts with 'options'")]
    NoOptions,
}

/// The entry's text.
pub fn loader_entry(rootfs_url: &str, architecture: Architecture) -> Result<String, EntryError> {
    let bad = |c: char| !c.is_ascii_graphic() || matches!(c, '\'' | '"' | '\\');
    if let Some(character) = rootfs_url.chars().find(|&c| bad(c)) {
        let url: String = public_url(rootfs_url).chars().map(|c| if bad(c) { '?' } else { c }).take(200).collect();
        return Err(EntryError::Character { url, character });
    }
    let common = "ignition.firstboot ignition.platform.id=metal";
    let options = match architecture {
        Architecture::S390x => {
            format!("random.trust_cpu=on ai.ip_cfg_override=1 {common} coreos.live.rootfs_url={rootfs_url}")
        }
        Architecture::Other => format!("random.trust_cpu=on {common} 'coreos.live.rootfs_url={rootfs_url}'"),
    };
    Ok(format!(
        "title Assisted Installer Discovery\nversion {VERSION}\noptions {options}\nlinux /boot/discovery/vmlinuz\n\
         initrd /boot/discovery/initrd\n"
    ))
}

/// What zipl gets to boot with: the options of `entry`, and what of the node's own `command_line` brings its network and
/// disks up.
pub fn zipl_options(entry: &str, command_line: &str) -> Result<String, EntryError> {
    let options = entry.lines().find_map(|line| line.strip_prefix("options ")).ok_or(EntryError::NoOptions)?;
    let named = |name: &str| {
        let mut words = command_line.split_ascii_whitespace();
        words.find(|word| word.split_once('=').is_some_and(|(key, _)| key == name))
    };
    let preserved = KEPT_ON_S390X.iter().filter_map(|name| named(name));
    Ok(std::iter::once(options.trim()).chain(preserved).collect::<Vec<_>>().join(" "))
}
