//! What a step's rules depend on.

use std::{
    borrow::Cow,
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Gives it [`Named::targets`], one per line.
pub(super) const TARGETS_VARIABLE: &str = "LANDFALL_STEP_TARGETS";
/// Gives it [`Named::ca_cert`].
pub(crate) const CA_VARIABLE: &str = "LANDFALL_STEP_CA";
/// Gives it [`Named::progress`].
const PROGRESS_VARIABLE: &str = "LANDFALL_STEP_PROGRESS";
/// Gives it [`Named::action`].
pub(super) const ACTION_VARIABLE: &str = "LANDFALL_STEP_ACTION";
/// Set for [`Named::changes_live_system`].
pub(super) const LIVE_SYSTEM_VARIABLE: &str = "LANDFALL_STEP_CHANGES_LIVE_SYSTEM";

/// What a child's rules depend on. It learns of that beside its request, which it reads once the rules hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The disks that it may write to, or the root of the node that it may change.
    pub targets: Vec<PathBuf>,
    /// Certificates that the agent is configured to trust.
    pub ca_cert: Option<PathBuf>,
    /// The directory that it writes its progress to.
    pub progress: Option<PathBuf>,
    /// Whether it may change the live system, too.
    pub changes_live_system: bool,
    /// Which of several things it does, for a type of step that has other rules for each.
    pub action: Option<Cow<'static, str>>,
}

impl Named {
    /// As [`Named::from_environment`] reads it.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, OsString)> + '_ {
        let targets: Vec<_> = self.targets.iter().map(|path| path.as_os_str()).collect();
        let targets = (!targets.is_empty()).then(|| targets.join(OsStr::new("\n")));
        let path = |path: &Option<PathBuf>| path.clone().map(PathBuf::into_os_string);
        let variables = [
            (TARGETS_VARIABLE, targets),
            (CA_VARIABLE, path(&self.ca_cert)),
            (PROGRESS_VARIABLE, path(&self.progress)),
            (LIVE_SYSTEM_VARIABLE, self.changes_live_system.then(|| "1".into())),
            (ACTION_VARIABLE, self.action.as_deref().map(OsString::from)),
        ];
        variables.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    pub(crate) fn from_environment() -> Self {
        let path = |name| env::var_os(name).map(PathBuf::from);
        let targets = env::var_os(TARGETS_VARIABLE).unwrap_or_default();
        let lines = targets.as_bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Self {
            targets: lines.map(|line| OsStr::from_bytes(line).into()).collect(),
            ca_cert: path(CA_VARIABLE),
            progress: path(PROGRESS_VARIABLE),
            changes_live_system: env::var_os(LIVE_SYSTEM_VARIABLE).is_some(),
            action: env::var(ACTION_VARIABLE).ok().map(Cow::from),
        }
    }

    /// The root of a node.
    pub(super) fn node(&self) -> Option<&Path> {
        self.targets.iter().map(PathBuf::as_path).find(|path| path.is_dir())
    }
}
