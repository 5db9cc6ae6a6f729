//! Files and ports by Landlock (landlock(7)), with what of it the kernel knows.

use super::Named;
use crate::privileges::{InTree, Rules, Socket};
use kernel::{
    DevNumber, Root,
    block::{Node, linked, nodes},
};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};
use std::{
    env,
    fs::{self, OpenOptions},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The newest version these rules were tried with.
const VERSION: ABI = ABI::V7;
/// Nodes of drivers of SAS adapters, and where those of CXL memory are.
const CONTROLLERS: [&str; 3] = ["/dev/cxl", "/dev/mpt2ctl", "/dev/mpt3ctl"];
/// Devices on one disk.
const MAX_STACK: usize = 4096;

/// Holds this thread, and what it starts, to the rules' files and ports.
pub(super) fn restrict(rules: &Rules, named: &Named) -> Result<(), RulesetError> {
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
    for port in rules.listens {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let change =
        AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::MakeSock | AccessFs::RemoveFile;
    let change_tree = read | change | AccessFs::MakeDir | AccessFs::RemoveDir;
    // No disk, and nothing to execute.
    let change_system = AccessFs::from_all(VERSION)
        & !(AccessFs::Execute | AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    for path in rules.reads.iter().copied().flatten() {
        ruleset = allow(ruleset, Path::new(path), read)?;
    }
    if rules.reads_live_system {
        for name in entries("/").filter(|name| name != "proc") {
            ruleset = allow(ruleset, &Path::new("/").join(name), read)?;
        }
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
        for node in nodes_of(&["/sys/class/block", "/sys/class/nvme"]) {
            ruleset = allow(ruleset, &node, AccessFs::ReadFile | AccessFs::IoctlDev)?;
        }
    }
    if rules.asks_controllers {
        let others = CONTROLLERS.iter().map(PathBuf::from);
        for node in nodes_of(&["/sys/class/scsi_generic"]).chain(others) {
            ruleset = allow(ruleset, &node, AccessFs::ReadFile | AccessFs::IoctlDev)?;
        }
    }
    for path in rules.writes {
        ruleset = allow(ruleset, Path::new(path), read | change | AccessFs::IoctlDev)?;
    }
    for path in rules.trees {
        let path = Path::new(path);
        make_directory(path);
        ruleset = allow(ruleset, path, if rules.changes_live_system { change_system } else { change_tree })?;
    }
    if rules.changes_live_system && named.changes_live_system {
        for name in entries("/").filter(|name| !["dev", "proc", "sys"].contains(&name.as_str())) {
            ruleset = allow(ruleset, &Path::new("/").join(name), change_system)?;
        }
    }
    for path in rules.makes {
        let _ = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        ruleset = allow(ruleset, Path::new(path), read | change)?;
    }
    if let Some(directory) = &named.progress {
        make_directory(directory);
        ruleset = allow(ruleset, directory, read | change)?;
    }
    for path in rules.takes {
        ruleset = allow(ruleset, Path::new(path), read | AccessFs::RemoveFile)?;
    }
    for (below, does) in rules.node {
        let access = if *does == InTree::Changes { change_tree } else { read };
        if let Some(node) = named.node().filter(|node| node.is_absolute()) {
            ruleset = allow(ruleset, &node.join(below), access)?;
        }
    }
    let use_device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for disk in named.targets.iter().filter(|_| rules.writes_its_disks) {
        let Some(number) = DevNumber::of_block_device(disk) else { continue };
        ruleset = allow(ruleset, disk, use_device)?;
        for device in if rules.takes_down { stack_on(number) } else { Vec::new() } {
            ruleset = allow(ruleset, &Path::new("/dev").join(device.name.replace('!', "/")), use_device)?;
            ruleset = allow(ruleset, &device.dir, read | AccessFs::WriteFile | AccessFs::Truncate)?;
        }
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

/// Where that fails, so will what the step does there.
fn make_directory(path: &Path) {
    let _ = path.parent().map(fs::create_dir_all);
    let _ = fs::DirBuilder::new().mode(0o700).create(path);
}

/// Allows this in and below `path`. What is missing, or can't be opened, needs no rule.
fn allow(ruleset: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(ruleset) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
    ruleset.add_rule(PathBeneath::new(fd, access))
}

/// The nodes of all devices of these classes: where a driver's name has a `!`, the node has a `/`.
fn nodes_of(classes: &'static [&'static str]) -> impl Iterator<Item = PathBuf> {
    let names = classes.iter().copied().flat_map(entries);
    names.map(|name| Path::new("/dev").join(name.replace('!', "/")))
}

/// A disk, its partitions, and the devices that lie on them.
fn stack_on(disk: DevNumber) -> Vec<Node> {
    let Ok(root) = Root::open("/") else { return Vec::new() };
    let mut left: Vec<_> = root.resolve(format!("/sys/dev/block/{disk}")).into_iter().collect();
    let mut found: Vec<Node> = Vec::new();
    while let Some(directory) = left.pop() {
        for node in nodes(&root, &directory).unwrap_or_default() {
            if found.len() < MAX_STACK && found.iter().all(|other| other.number != node.number) {
                left.extend(linked(&root, &node.dir, "holders"));
                found.push(node);
            }
        }
    }
    found
}

fn entries(directory: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}
