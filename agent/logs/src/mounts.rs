//! Mounts as `findmnt --df` lists them, and links as `ls -l` does.

use super::blocks::{layout, size};
use inventory::Root;
use std::{io, path::Path};

const MAX_TABLE_BYTES: usize = 4 << 20;
/// Kinds whose size is asked of another machine or process, which may never answer.
const REMOTE: [&str; 12] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "9p", "afs", "glusterfs", "lustre", "autofs", "ncpfs"];
/// Kinds without room: findmnt leaves out pseudo file systems.
const PSEUDO: [&str; 24] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "cpuset",
    "debugfs",
    "devpts",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "pipefs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sockfs",
    "sysfs",
    "tracefs",
];

/// The table of mounts with their room.
pub(super) fn table(root: &Root) -> String {
    let mounts = root.text("/proc/self/mountinfo", MAX_TABLE_BYTES).unwrap_or_default();
    let heads = ["SOURCE", "FSTYPE", "SIZE", "USED", "AVAIL", "USE%", "TARGET"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(mounts.lines().filter_map(|line| row(root, line)));
    layout(&rows, &[2, 3, 4, 5])
}

fn row(root: &Root, line: &str) -> Option<[String; 7]> {
    // proc(5): number, parent, device, root, target, options, …, "-", kind, source, options.
    let (place, what) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (within, target) = (place.next()?, unescape(place.next()?));
    let mut what = what.split(' ');
    let (kind, source) = (what.next()?, unescape(what.next()?));
    if PSEUDO.contains(&kind) {
        return None;
    }
    let source = if within == "/" { source } else { format!("{source}[{}]", unescape(within)) };
    let remote = REMOTE.contains(&kind) || kind.starts_with("fuse");
    let room = (!remote && root.is_live()).then(|| nix::sys::statvfs::statvfs(Path::new(&target)).ok()).flatten();
    let cells = room.map(|room| {
        let block = room.fragment_size();
        let bytes = |blocks: u64| blocks.saturating_mul(block);
        let used = room.blocks().saturating_sub(room.blocks_free());
        let percent = used.saturating_mul(100) / room.blocks().max(1);
        [size(bytes(room.blocks())), size(bytes(used)), size(bytes(room.blocks_available())), format!("{percent}%")]
    });
    let [total, used, free, percent] = cells.unwrap_or_else(|| ["-", "-", "-", "-"].map(str::to_owned));
    Some([source, kind.to_owned(), total, used, free, percent, target])
}

/// `\040` is a blank, and so on.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend(before.bytes());
        match after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(b'\\');
                rest = after;
            }
        }
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The links in a directory and where they lead.
pub(super) fn links(root: &Root, directory: &str) -> io::Result<String> {
    if !root.is_dir(directory) {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{directory}: no such directory")));
    }
    let mut text = String::new();
    for name in root.list(directory) {
        let target = root.link_target(format!("{directory}/{name}"));
        let target = target.map_or_else(|| "?".to_owned(), |target| target.display().to_string());
        text.push_str(&format!("{name} -> {target}\n"));
    }
    Ok(text)
}
