//! What coreos-installer's package has for images, besides the program: units, a generator, and the module of dracut with rdcore
//! (docs/compatibility.md#installation-units).

use crate::initrd::{Archive, ArchiveError};

macro_rules! files {
    ($($path:literal $mode:literal,)*) => {
        [$(($path, $mode, include_str!(concat!("../coreos-installer/", $path))),)*]
    };
}

/// Path, mode, content.
const FILES: [(&str, u32, &str); 9] = files!(
    "usr/lib/systemd/system/coreos-installer.service" 0o644,
    "usr/lib/systemd/system/coreos-installer.target" 0o644,
    "usr/lib/systemd/system/coreos-installer-pre.target" 0o644,
    "usr/lib/systemd/system/coreos-installer-post.target" 0o644,
    "usr/lib/systemd/system/coreos-installer-reboot.service" 0o644,
    "usr/lib/systemd/system/coreos-installer-noreboot.service" 0o644,
    "usr/lib/systemd/system/coreos-installer-disable-device-auto-activation.service" 0o644,
    "usr/share/coreos-installer/no-activation.conf" 0o644,
    "usr/lib/dracut/modules.d/50rdcore/module-setup.sh" 0o755,
);
/// Names that the program answers to.
const LINKS: [(&str, &str); 2] = [
    ("usr/bin/coreos-installer", "landfall"),
    ("usr/lib/systemd/system-generators/coreos-installer-generator", "../../../bin/landfall"),
];

/// Adds all of it to a root file system that has the program.
pub(crate) fn add(root: &mut Archive) -> Result<(), ArchiveError> {
    for (path, mode, text) in FILES {
        root.add(path, mode, text)?;
    }
    LINKS.iter().try_for_each(|(path, target)| root.add_symlink(path, target))
}
