//! What Butane says of a document before it is translated.

use super::edition::Edition;
use super::value::{Data, Findings, Value, snake};

/// The disk that the system boots from, whose partitions may be named by their labels.
const BOOT_DISK: &str = "/dev/disk/by-id/coreos-boot-disk";
const ROLE: &str = "machineconfiguration.openshift.io/role";
/// Tells the kernel where the key is that a CEX card opens.
const CEX_ARGUMENT: &str = "rd.luks.key=/etc/luks/cex.key";
const KERNEL_TYPES: [&str; 3] = ["", "default", "realtime"];
pub(super) const ECKD: &str = "s390x-eckd";
pub(super) const ZFCP: &str = "s390x-zfcp";
/// Layouts of a boot device; those of IBM Z came with 1.6.
const LAYOUTS: [&str; 6] = ["x86_64", "aarch64", "ppc64le", "s390x-virt", ECKD, ZFCP];
const OLD_LAYOUTS: usize = 3;

pub(super) fn check(document: &Value, edition: Edition, findings: &mut Findings) {
    if edition.openshift.is_none() && edition.fcos >= 6 {
        partitions_and_mounts(document, findings);
    }
    if edition.openshift.is_some() && edition.fcos >= 6 {
        cex_argument(document, findings);
    }
    document.each_object(&mut |name, object| match name {
        "Resource" | "Reference" => sources(object, &["inline", "local", "source"], findings),
        "Unit" | "Dropin" => sources(object, &["contents", "contentsLocal"], findings),
        "Filesystem" => mount_unit(object, edition, findings),
        "Directory" => mode(object, true, findings),
        "File" => mode(object, false, findings),
        "Tree" if object.text_at("local").is_empty() => findings.error(object.at, "local is required"),
        "BootDevice" => boot_device(object, edition, findings),
        "GrubUser" => {
            for key in ["name", "passwordHash"].into_iter().filter(|key| object.text_at(key).is_empty()) {
                let what = if key == "name" { "a name" } else { "a password hash" };
                findings.error_at(object, key, format!("a user of GRUB needs {what}"));
            }
        }
        "Metadata" => metadata(object, findings),
        "OpenShift" if !KERNEL_TYPES.contains(&object.text_at("kernelType")) => {
            findings.error_at(object, "kernelType", "the kernel type is default or realtime");
        }
        _ => {}
    });
}

fn sources(object: &Value, keys: &[&str], findings: &mut Findings) {
    let mut given = keys.iter().filter(|key| object.get(key).is_some());
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        findings.error_at(object, second, format!("only one of {} and {} may be given", snake(first), snake(second)));
    }
}

fn mount_unit(filesystem: &Value, edition: Edition, findings: &mut Findings) {
    if !filesystem.is_true(&["withMountUnit"]) {
        return;
    }
    let (format, path) = (filesystem.text_at("format"), filesystem.text_at("path"));
    if format.is_empty() {
        findings.error_at(filesystem, "format", "a mount unit needs the file system's format");
    }
    // Swap space is mounted nowhere; before 1.4 there was no unit for it.
    let is_swap = edition.fcos >= 4 && (format == "swap" || format.is_empty());
    if path.is_empty() && !is_swap {
        findings.error_at(filesystem, "path", "a mount unit needs a path");
    }
}

fn mode(object: &Value, is_directory: bool, findings: &mut Findings) {
    let Some(mode) = object.number_at("mode").filter(|mode| (0..=7777).contains(mode)) else { return };
    let Ok(octal) = i64::from_str_radix(&mode.to_string(), 8) else { return };
    if !is_usual(mode, is_directory) && is_usual(octal, is_directory) {
        findings.warning_at(object, "mode", format!("the mode is decimal: 0{mode} is the octal one"));
    }
}

/// Whether people give files or directories such permissions.
fn is_usual(mode: i64, is_directory: bool) -> bool {
    let mut given = 0;
    for class in [mode & 7, mode >> 3 & 7, mode >> 6 & 7] {
        let takes_away = given & !class != 0;
        let runs_what_others_only_read = class & 1 != 0 && given & 5 == 4;
        let is_blind = class & 3 != 0 && class & 4 == 0;
        if takes_away || runs_what_others_only_read || is_blind {
            return false;
        }
        given |= class;
    }
    let (runs, writes) = (given & 1 != 0, given & 2 != 0);
    let special = match (is_directory, mode & 0o7000) {
        (true, special) => runs && special & 0o4000 == 0 && (special == 0 || writes),
        (false, special) => special == 0 || special & 0o1000 == 0 && runs && mode & 2 == 0,
    };
    mode == 0 || given & 4 != 0 && special
}

fn boot_device(device: &Value, edition: Edition, findings: &mut Findings) {
    let mirrors = device.items_at(&["mirror", "devices"]);
    let layout = device.get("layout").and_then(Value::text);
    if !mirrors.is_empty() && layout.is_none() {
        let message = "a mirrored boot device needs a layout";
        match edition.fcos >= 7 {
            true => findings.error_at(device, "mirror", message),
            false => findings.warning_at(device, "mirror", message),
        }
    }
    if let (1, Some(mirror)) = (mirrors.len(), device.get("mirror")) {
        findings.error_at(mirror, "devices", "a mirror needs two devices or more");
    }
    let known = LAYOUTS.get(..if edition.fcos >= 6 { LAYOUTS.len() } else { OLD_LAYOUTS }).unwrap_or_default();
    if layout.is_some_and(|layout| !known.contains(&layout)) {
        findings.error_at(device, "layout", format!("the layout is one of {}", known.join(", ")));
        return;
    }
    let is_z = layout.is_some_and(|layout| layout.starts_with("s390x"));
    if is_z && !mirrors.is_empty() {
        findings.error_at(device, "layout", "boot devices of IBM Z cannot be mirrored");
    }
    let disk = device.find(&["luks", "device"]).and_then(Value::text).unwrap_or_default();
    let prefix = match layout {
        Some(ECKD) => Some("/dev/dasd"),
        Some(ZFCP) => Some("/dev/sd"),
        _ => None,
    };
    if let (Some(layout), Some(prefix)) = (layout, prefix) {
        let letter = disk.rsplit_once(prefix).map(|(_, letter)| letter.as_bytes());
        match letter {
            Some([b'a'..=b'z']) => {}
            _ if disk.is_empty() => {
                findings.error_at(device, "layout", format!("the layout {layout} needs luks.device"))
            }
            _ => findings.error_at(
                device,
                "layout",
                format!("with the layout {layout}, luks.device is {prefix} and a letter"),
            ),
        }
    }
    let Some(luks) = device.get("luks") else { return };
    let (has_tpm2, has_cex) = (luks.is_true(&["tpm2"]), luks.is_true(&["cex", "enabled"]));
    if has_cex {
        if !is_z {
            let (object, key) = if layout.is_some() { (device, "layout") } else { (luks, "cex") };
            findings.error_at(object, key, "CEX cards are of IBM Z: the layout must be one of s390x");
        }
        if has_tpm2 || !luks.items_at(&["tang"]).is_empty() {
            findings.error(luks.at, "cannot use both cex and clevis");
        }
    }
    let is_given = |tang: &Value| matches!(&tang.data, Data::Object(_, members) if !members.is_empty());
    let has_tang = luks.items_at(&["tang"]).iter().any(is_given);
    if edition.fcos >= 7 && !disk.is_empty() && !(has_tpm2 || has_cex || has_tang) {
        findings.error(luks.at, "nothing opens the device: give tang, tpm2 or cex");
    }
}

fn partitions_and_mounts(document: &Value, findings: &mut Findings) {
    let mirrors = document.items_at(&["bootDevice", "mirror", "devices"]);
    for disk in document.items_at(&["storage", "disks"]) {
        let device = disk.text_at("device");
        let is_mirrored = mirrors.iter().any(|mirror| mirror.text() == Some(device));
        if device == BOOT_DISK || disk.is_true(&["wipeTable"]) || is_mirrored {
            continue;
        }
        for partition in disk.items_at(&["partitions"]) {
            if partition.number_at("number").unwrap_or_default() == 0 && partition.get("label").is_some() {
                let message = format!(
                    "only on {BOOT_DISK}, or with wipe_table, is a partition found by its label: give its number"
                );
                findings.warning_at(partition, "number", message);
            }
        }
    }
    for filesystem in document.items_at(&["storage", "filesystems"]).iter().filter(|fs| fs.is_true(&["withMountUnit"]))
    {
        let path = filesystem.get("path").and_then(Value::text);
        let is_below =
            |path: &str, top: &str| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if path.is_some_and(|path| !is_below(path, "/etc") && !is_below(path, "/var")) {
            findings.error_at(filesystem, "path", "only below /etc and /var are file systems mounted by units");
        }
    }
}

fn cex_argument(document: &Value, findings: &mut Findings) {
    let opens_root = |luks: &Value| luks.text_at("name") == "root" && luks.is_true(&["cex", "enabled"]);
    let has_cex = document.is_true(&["bootDevice", "luks", "cex", "enabled"])
        || document.items_at(&["storage", "luks"]).iter().any(opens_root);
    let arguments = document.items_at(&["openshift", "kernelArguments"]);
    if has_cex && !arguments.iter().any(|argument| argument.text() == Some(CEX_ARGUMENT)) {
        let message = format!("with CEX, openshift.kernel_arguments must have {CEX_ARGUMENT}");
        match document.get("openshift") {
            Some(openshift) => findings.error_at(openshift, "kernelArguments", message),
            None => findings.error_at(document, "openshift", message),
        }
    }
}

fn metadata(metadata: &Value, findings: &mut Findings) {
    if metadata.text_at("name").is_empty() {
        findings.error_at(metadata, "name", "metadata.name is required");
    }
    let labels = match metadata.get("labels") {
        Some(Value { data: Data::Map(labels), .. }) => labels.as_slice(),
        _ => &[],
    };
    if !labels.iter().any(|(label, role)| &**label == ROLE && role.text().is_some_and(|role| !role.is_empty())) {
        findings.error_at(metadata, "labels", format!("metadata.labels must have {ROLE}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_modes_are_noticed() {
        for (mode, is_directory, expected) in [
            (0o644, false, true),
            (0o755, true, true),
            (0o600, false, true),
            (0o1777, true, true),
            (0o4755, false, true),
            (0o644, true, false),
            (0o1644, false, false),
            (0o4757, false, false),
            (0o754, false, false),
            (0o745, false, false),
            (0o444, false, true),
            (0o200, false, false),
            (644, false, false),
            (755, true, false),
            (0, false, true),
        ] {
            assert_eq!(is_usual(mode, is_directory), expected, "{mode:o}");
        }
    }
}
