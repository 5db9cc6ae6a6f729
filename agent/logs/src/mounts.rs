//! Mounts as `findmnt --df` lists them, and links as `ls -l` does.

use inventory::Root;
use kernel::{
    columns,
    mounts::{Mount, mounts},
    units,
};
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
    let table = root.text("/proc/self/mountinfo", MAX_TABLE_BYTES).unwrap_or_default();
    let heads = ["SOURCE", "FSTYPE", "SIZE", "USED", "AVAIL", "USE%", "TARGET"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(mounts(&table).into_iter().filter_map(|mount| row(root, mount)));
    columns(&rows, &[2, 3, 4, 5], " ")
}

fn row(root: &Root, mount: Mount) -> Option<[String; 7]> {
    if PSEUDO.contains(&mount.kind.as_str()) {
        return None;
    }
    let [source, target, within] = [mount.source, mount.target, mount.root].map(|text| printable(&text));
    let source = if within == "/" { source } else { format!("{source}[{within}]") };
    let remote = REMOTE.contains(&mount.kind.as_str()) || mount.kind.starts_with("fuse");
    let room = (!remote && root.is_live()).then(|| nix::sys::statvfs::statvfs(Path::new(&target)).ok()).flatten();
    let cells = room.map(|room| {
        let block = room.fragment_size();
        let bytes = |blocks: u64| blocks.saturating_mul(block);
        let used = room.blocks().saturating_sub(room.blocks_free());
        let percent = used.saturating_mul(100) / room.blocks().max(1);
        let sizes = [room.blocks(), used, room.blocks_available()].map(|blocks| units::short(bytes(blocks)));
        let [total, used, free] = sizes;
        [total, used, free, format!("{percent}%")]
    });
    let [total, used, free, percent] = cells.unwrap_or_else(|| ["-", "-", "-", "-"].map(str::to_owned));
    Some([source, mount.kind, total, used, free, percent, target])
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
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
