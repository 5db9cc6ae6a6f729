//! `openshift-install` of each release, taken out of its release image once.

use api::Secret;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct ReleaseRequest {
    pub image: String,
    pub version: String,
    pub architecture: String,
    pub pull_secret: Secret,
}
#[derive(Debug)]
pub struct Installers(pub PathBuf);
#[derive(Debug)]
pub struct InstallerGuard(PathBuf);
impl InstallerGuard {
    pub fn path(&self) -> &Path {
        &self.0
    }
}
#[derive(Debug, thiserror::Error)]
pub enum InstallerError {}
impl Installers {
    pub fn get(&self, _: &ReleaseRequest, _: &dyn Fn() -> bool) -> Result<InstallerGuard, InstallerError> {
        Ok(InstallerGuard(self.0.clone()))
    }
}
