//! Options of `landfall serve` that say where `openshift-install` comes from.

use super::{
    given::{GivenInstaller, GivenInstallers},
    sizes::InstallerCacheArgs,
};
use std::path::PathBuf;

/// Where the program of each release comes from.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Files of clusters")]
pub struct InstallerArgs {
    /// openshift-install to run, instead of the one in the release image: for one version (4.22.9=FILE), a minor release (4.22=FILE), or
    /// all. May be repeated
    #[arg(long = "openshift-install", value_name = "[VERSION=]FILE")]
    pub openshift_install: Vec<GivenInstaller>,

    /// Extract openshift-install with this oc, instead of without any other program
    #[arg(long, value_name = "FILE")]
    pub oc: Option<PathBuf>,

    /// Release image for --oc to extract from, if registries.conf has no mirrors
    #[arg(long, value_name = "IMAGE", env = "OPENSHIFT_INSTALL_RELEASE_IMAGE_MIRROR", hide_env_values = true)]
    pub oc_release_image_mirror: Option<String>,

    #[command(flatten)]
    pub cache: InstallerCacheArgs,
}

impl InstallerArgs {
    /// Whether a program is named.
    pub fn is_given(&self) -> bool {
        !self.openshift_install.is_empty() || self.oc.is_some()
    }

    pub fn given(&self) -> GivenInstallers {
        GivenInstallers(self.openshift_install.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Size;
    use clap::Parser;
    use std::path::Path;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        installers: InstallerArgs,
    }

    #[test]
    fn options_name_programs_and_sizes() {
        let parse = |arguments: &str| Program::try_parse_from(arguments.split(' ')).map(|program| program.installers);
        let plain = parse("landfall").unwrap();
        assert_eq!((plain.cache.capacity, plain.cache.max_release_size), (Size(0), Size(2 << 30)));
        assert!(plain.oc.is_none() && plain.given().find("4.22.9").is_none());
        let all = "landfall --openshift-install 4.22=/a --openshift-install /b --oc /c --installer-cache-capacity 20GiB \
                   --installer-cache-max-release-size 1GB";
        let all = parse(all).unwrap();
        assert_eq!(all.given().find("4.22.9"), Some(Path::new("/a")));
        assert_eq!(all.given().find("4.21.9"), Some(Path::new("/b")));
        assert_eq!(all.cache.capacity, Size(20 << 30));
        for bad in ["--installer-cache-capacity 20", "--openshift-install 4.22="] {
            assert!(parse(&format!("landfall {bad}")).is_err(), "{bad}");
        }
    }
}
