//! A run of `openshift-install`.

mod outcome;
mod program;

pub use program::ProgramError;

use crate::{
    Files, Job, NodeSettings, Phase,
    directory::{self, Directory, DirectoryError},
    edit::{self, EditError},
    manifests::{self, ManifestError, ReleaseImage},
};
use api::proxy::ProxyVariables;
use nix::fcntl::OFlag;
use program::{Program, SINGLE_NODE};
use std::{
    env,
    ffi::OsString,
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

const INSTALL_CONFIG: &str = "install-config.yaml";
/// For a process that has no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// For each of the two commands.
    pub time: Duration,
    /// Of all that is in the directory.
    pub directory_bytes: u64,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum PreparationError {
    #[error("the preparation was cancelled")]
    Cancelled,
    #[error(transparent)]
    Program(ProgramError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Manifests(#[from] ManifestError),
    #[error("can't read the ready-made keys in {}", path.display())]
    Signers { path: PathBuf, source: io::Error },
    #[error("{file}, which openshift-install made, is not usable: {reason}")]
    Made { file: &'static str, reason: String },
    #[error(transparent)]
    Edit(#[from] EditError),
}

impl From<ProgramError> for PreparationError {
    fn from(error: ProgramError) -> Self {
        if matches!(error, ProgramError::Cancelled) { Self::Cancelled } else { Self::Program(error) }
    }
}

/// Runs `installer` in a new directory below `work`, which is removed whatever comes. `stop` ends it soon after it says so.
///
/// The kernel kills the installer if the calling thread ends.
pub fn run(
    job: &Job,
    installer: &Path,
    work: &Path,
    bounds: &Bounds,
    stop: &dyn Fn() -> bool,
    on_phase: &mut dyn FnMut(Phase),
) -> Result<Files, PreparationError> {
    let directory = Directory::create(work, job.cluster)?;
    let program = Program {
        path: installer,
        environment: environment(job, &directory),
        directory: &directory,
        time: bounds.time,
        directory_bytes: bounds.directory_bytes,
        stop,
    };
    directory.write(INSTALL_CONFIG, job.install_config.expose().as_bytes())?;
    if let Some(signers) = &job.signers {
        copy_signers(signers, &directory)?;
    }
    on_phase(Phase::Manifests);
    program.create("manifests")?;
    on_phase(Phase::Additions);
    let release_image = ReleaseImage::of(job);
    manifests::complete(&directory, job, release_image.as_ref())?;
    on_phase(Phase::Ignition);
    program.create(if job.nodes.single_node { SINGLE_NODE } else { "ignition-configs" })?;
    let mut files = outcome::read(&directory, job)?;
    on_phase(Phase::Edits);
    let internal_registry = release_image.map(|image| image.host);
    edit::apply(&mut files, &NodeSettings { internal_registry, ..job.nodes.clone() })?;
    if stop() { Err(PreparationError::Cancelled) } else { Ok(files) }
}

/// The program's whole environment.
fn environment(job: &Job, directory: &Directory) -> Vec<(String, OsString)> {
    let mut all: Vec<(&str, OsString)> = vec![
        ("PATH", env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into())),
        ("HOME", directory.home().into()),
        ("TMPDIR", directory.temporary().into()),
        ("OPENSHIFT_INSTALL_INVOKER", job.invoker.clone().into()),
    ];
    if !job.release_image.is_empty() {
        all.push(("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", job.release_image.clone().into()));
    }
    if job.signers.is_some() {
        all.push(("OPENSHIFT_INSTALL_LOAD_CLUSTER_CERTS", "true".into()));
    }
    if let Some(address) = job.bootstrap_address {
        all.push(("OPENSHIFT_INSTALL_BOOTSTRAP_NODE_IP", address.to_string().into()));
    }
    let proxies = ProxyVariables::from_env();
    all.extend(proxies.pairs().map(|(name, value)| (name, value.into())));
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Copies the regular files of a directory, which may be missing.
fn copy_signers(from: &Path, directory: &Directory) -> Result<(), PreparationError> {
    let failed = |source| PreparationError::Signers { path: from.to_owned(), source };
    directory.create_folder("tls", 0o755)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())) else { continue };
        let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(entry.path());
        let content = directory::read_bounded(file.map_err(failed)?, name)?;
        directory.write(&format!("tls/{name}"), &content)?;
    }
    Ok(())
}
