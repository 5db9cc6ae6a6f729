//! Installing into the root of a system that runs from a disk already (docs/compatibility.md#installing-into-the-running-system): the new
//! system is deployed beside the old one, and the next boot is its first.

use crate::{
    host::{Host, HostError},
    plan::RootDeploy,
    programs::Program,
};
use kernel::Cancel;
use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A file system of the running system.
const SYSROOT: &str = "sysroot";
const BOOT: &str = "boot";
/// A reference that would keep the old image's layers, and what tells the node's units that it is gone.
const NODE_IMAGE: &str = "ostree/repo/refs/heads/coreos/node-image";
const NODE_IMAGE_MARK: &str = "ostree/repo/tmp/node-image";
/// Registry credentials, from the bootstrap config or the discovery image.
const AUTH_FILE: &str = "/root/.docker/config.json";
/// A new root of state within the file system, so that the old one's /var and /etc stay out.
const STATEROOT: &str = "install";

/// Why the system was not deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The host did not do it.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file on the boot file system.
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot copy the network profiles in {}", path.display())]
    Network {
        /// The directory, or a file in it.
        path: PathBuf,
        source: io::Error,
    },
}

/// Deploys once. Remains of an earlier attempt are reused.
pub(crate) fn deploy(
    host: &dyn Host,
    deploy: &RootDeploy,
    ignition: &[u8],
    cancel: &Cancel,
) -> Result<(), DeployError> {
    let root = host.root();
    let boot = root.join(BOOT);
    host.make_writable(&root.join(SYSROOT))?;
    host.make_writable(&boot)?;
    let ostree = |args: &[&str]| run(host, Program::Ostree, args, cancel);
    if root.join(NODE_IMAGE).exists() {
        ostree(&["refs", "--repo", "/ostree/repo", "--delete", "coreos/node-image"])?;
        let mark = root.join(NODE_IMAGE_MARK);
        File::create(&mark).map_err(|source| DeployError::Write { path: mark, source })?;
    }
    if !root.join("ostree/deploy").join(STATEROOT).is_dir() {
        ostree(&["admin", "stateroot-init", STATEROOT])?;
    }
    // The boot loader puts in what it knows of the first boot: the dollar sign is its own.
    ostree(&[
        "container",
        "image",
        "deploy",
        "--stateroot",
        STATEROOT,
        "--sysroot",
        "/",
        "--authfile",
        AUTH_FILE,
        "--karg",
        "$ignition_firstboot",
        "--karg",
        "ignition.platform.id=metal",
        "--image",
        &deploy.image,
    ])?;
    ostree(&["admin", "finalize-staged"])?;
    let append = deploy.append_kargs.iter().flat_map(|karg| ["--append", karg.as_str()]);
    let delete = deploy.delete_kargs.iter().flat_map(|karg| ["--delete-if-present", karg.as_str()]);
    let changes: Vec<&str> = append.chain(delete).collect();
    if !changes.is_empty() {
        run(host, Program::RpmOstree, &[&["kargs", "--os", STATEROOT], changes.as_slice()].concat(), cancel)?;
        ostree(&["admin", "finalize-staged"])?;
    }
    if let Some(dir) = &deploy.network_dir {
        copy_network(&below(root, dir), &boot.join("coreos-firstboot-network"))?;
    }
    write(&boot.join("ignition"), "config.ign", ignition)?;
    // Last: from here on the next boot is a first one.
    write(&boot, "ignition.firstboot", b"")
}

fn run(host: &dyn Host, program: Program, args: &[&str], cancel: &Cancel) -> Result<(), DeployError> {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    let output = host.run(program, &args, cancel).map_err(HostError::from)?;
    tracing::debug!(program = program.path(), said = output);
    Ok(())
}

/// `path`, which is absolute, below `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Its regular files, with their modes.
fn copy_network(from: &Path, to: &Path) -> Result<(), DeployError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| DeployError::Network { path, source }
    };
    make_dir(to, 0o755).map_err(fail(to))?;
    for entry in fs::read_dir(from).map_err(fail(from))? {
        let path = entry.map_err(fail(from))?.path();
        let metadata = path.symlink_metadata().map_err(fail(&path))?;
        let Some(name) = path.file_name().filter(|_| metadata.is_file()) else { continue };
        let content = fs::read(&path).map_err(fail(&path))?;
        let mode = metadata.permissions().mode() & 0o777;
        replace(&to.join(name), mode, &content).map_err(fail(&path))?;
    }
    Ok(())
}

fn write(dir: &Path, name: &str, content: &[u8]) -> Result<(), DeployError> {
    let path = dir.join(name);
    let written = make_dir(dir, 0o700).and_then(|()| replace(&path, 0o600, content));
    written.map_err(|source| DeployError::Write { path, source })
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// At once, and on the medium when it returns.
fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".draft");
    let draft = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
