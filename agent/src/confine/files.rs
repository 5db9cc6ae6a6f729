//! Files and ports by Landlock (landlock(7)), with what of it the kernel knows.

use crate::privileges::{InTree, Rules, Socket};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};
use std::{
    env, fs,
    os::unix::fs::{DirBuilderExt, FileTypeExt},
    path::{Path, PathBuf},
};

/// The newest version these rules were tried with.
const VERSION: ABI = ABI::V7;

/// Holds this thread, and what it starts, to the rules' files and ports. `target` is the disk or node of its request.
pub(super) fn restrict(rules: &Rules, target: Option<&Path>) -> Result<(), RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::AbstractUnixSocket)?;
    if !rules.signals_others {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
    let any_port = rules.sockets.contains(&Socket::Tcp) && rules.tcp_ports.is_empty();
    if !any_port {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut ruleset = ruleset.create()?;
    for port in rules.tcp_ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let change =
        AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::MakeSock | AccessFs::RemoveFile;
    let change_tree = read | change | AccessFs::MakeDir | AccessFs::RemoveDir;
    for path in rules.reads.iter().copied().flatten() {
        ruleset = allow(ruleset, Path::new(path), read)?;
    }
    if !rules.reads_of_processes.is_empty() {
        ruleset = allow(ruleset, Path::new("/proc"), AccessFs::ReadDir.into())?;
        for process in entries("/proc").filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            for file in rules.reads_of_processes {
                ruleset = allow(ruleset, &Path::new("/proc").join(&process).join(file), read)?;
            }
        }
    }
    if rules.reads_disks {
        for node in disks() {
            ruleset = allow(ruleset, &node, AccessFs::ReadFile | AccessFs::IoctlDev)?;
        }
    }
    for path in rules.writes {
        ruleset = allow(ruleset, Path::new(path), read | change | AccessFs::IoctlDev)?;
    }
    for path in rules.trees {
        let path = Path::new(path);
        // Where that fails, so will what the step does there.
        let _ = path.parent().map(fs::create_dir_all);
        let _ = fs::DirBuilder::new().mode(0o700).create(path);
        ruleset = allow(ruleset, path, change_tree)?;
    }
    for path in rules.takes {
        ruleset = allow(ruleset, Path::new(path), read | AccessFs::RemoveFile)?;
    }
    for (below, does) in rules.node {
        let access = if *does == InTree::Changes { change_tree } else { read };
        if let Some(node) = target.filter(|node| node.is_absolute()) {
            ruleset = allow(ruleset, &node.join(below), access)?;
        }
    }
    if rules.writes_its_disk
        && let Some(disk) = target
        && fs::metadata(disk).is_ok_and(|found| found.file_type().is_block_device())
    {
        ruleset = allow(ruleset, disk, AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev)?;
    }
    for (variable, end) in rules.reads_named_by {
        if let Some(mut path) = env::var_os(variable).filter(|value| !value.is_empty()) {
            path.push(end);
            ruleset = allow(ruleset, Path::new(&path), read)?;
        }
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// Allows this in and below `path`. What isn't there, or can't be opened, needs no rule.
fn allow(ruleset: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(ruleset) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
    ruleset.add_rule(PathBeneath::new(fd, access))
}

/// The nodes of all block devices and NVMe controllers: where a driver's name has a `!`, the node has a `/`.
fn disks() -> impl Iterator<Item = PathBuf> {
    let names = ["/sys/class/block", "/sys/class/nvme"].into_iter().flat_map(entries);
    names.map(|name| Path::new("/dev").join(name.replace('!', "/")))
}

fn entries(directory: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}
