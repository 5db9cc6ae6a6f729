//! Boot menus of ISOs that have no areas for kernel arguments: the text of their kernels' lines.

use crate::iso9660::{Extent, Iso, IsoError};
use std::io::{Read, Seek};

/// Names the medium with the root file system.
pub(super) const LIVE_ISO: &str = "coreos.liveiso=";
/// Where GRUB's and isolinux's menus are.
const MENUS: [&str; 6] = [
    "EFI/redhat/grub.cfg",
    "EFI/fedora/grub.cfg",
    "EFI/centos/grub.cfg",
    "boot/grub/grub.cfg",
    "boot/grub2/grub.cfg",
    "isolinux/isolinux.cfg",
];
const MAX_MENU_BYTES: u64 = 1 << 20;

/// Where menus are, and their text with `argument` in place of the medium's name; none if no line starts a CoreOS.
pub(super) fn find<R: Read + Seek>(iso: &mut Iso<R>, argument: &str) -> Result<Vec<(Extent, Vec<u8>)>, IsoError> {
    let mut found = Vec::new();
    for path in MENUS {
        let Some(was) = iso.find_optional(path)? else { continue };
        let menu = iso.read_file(path, MAX_MENU_BYTES)?;
        if let Some(menu) = String::from_utf8(menu).ok().and_then(|menu| edit(&menu, argument)) {
            found.push((was, menu.into_bytes()));
        }
    }
    Ok(found)
}

fn edit(menu: &str, argument: &str) -> Option<String> {
    let mut edited = String::with_capacity(menu.len() + argument.len());
    let mut lines = 0;
    for line in menu.split_inclusive('\n') {
        let is_kernels = line.split_ascii_whitespace().next().is_some_and(|word| {
            ["linux", "linuxefi", "append"].iter().any(|command| word.eq_ignore_ascii_case(command))
        });
        if !is_kernels || !(line.contains(LIVE_ISO) || line.contains("pxeboot/")) {
            edited.push_str(line);
            continue;
        }
        lines += 1;
        let text = line.trim_end();
        let words = text.split_inclusive(' ').filter(|word| !word.starts_with(LIVE_ISO));
        edited.push_str(words.collect::<String>().trim_end());
        edited.push_str(&format!(" {argument}"));
        edited.push_str(line.get(text.len()..).unwrap_or_default());
    }
    (lines > 0).then_some(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_that_start_a_coreos_change() {
        let argument = "coreos.live.rootfs_url=http://h/r";
        for (menu, expected) in [
            (
                "menuentry 'a' {\n\tlinux /images/pxeboot/vmlinuz rw coreos.liveiso=x-1 ignition.firstboot\n\tinitrd /i\n}\n####\n# COREOS_KARG_EMBED_AREA\n",
                Some(
                    "menuentry 'a' {\n\tlinux /images/pxeboot/vmlinuz rw ignition.firstboot @\n\tinitrd /i\n}\n####\n# COREOS_KARG_EMBED_AREA\n",
                ),
            ),
            (
                "label linux\r\n  APPEND initrd=/images/pxeboot/initrd.img,/images/ignition.img coreos.liveiso=x\r\nlabel m\r\n  append -",
                Some(
                    "label linux\r\n  APPEND initrd=/images/pxeboot/initrd.img,/images/ignition.img @\r\nlabel m\r\n  append -",
                ),
            ),
            ("linuxefi /images/pxeboot/vmlinuz", Some("linuxefi /images/pxeboot/vmlinuz @")),
            ("linux /memtest\nlinux16 coreos.liveiso=x\n", None),
            ("", None),
        ] {
            assert_eq!(edit(menu, argument), expected.map(|text| text.replace('@', argument)), "{menu}");
        }
    }
}
