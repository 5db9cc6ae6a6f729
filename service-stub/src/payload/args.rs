//! Options of `landfall serve` that set a release's images.

use super::known::Payload;
use crate::releases::version::{self, Form};

/// Images in install requests, for other installers.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Images")]
pub struct ImageArgs {
    /// Image reference of the machine-config operator in install requests, with which installers apply bootstrap.ign: for one
    /// version (4.22.9=IMAGE), a minor release (4.22=IMAGE), or all. May be repeated. Default: the one that the cluster's
    /// release image names
    #[arg(long = "mco-image", value_name = "[VERSION=]IMAGE", requires = "control_plane")]
    pub mco_images: Vec<ForVersion>,

    /// Image reference in install requests that gathers a cluster's logs, per version as for --mco-image. Takes precedence over
    /// --must-gather-images, and that over the release image
    #[arg(
        id = "must_gather_for_version",
        long = "must-gather-image",
        value_name = "[VERSION=]IMAGE",
        requires = "control_plane"
    )]
    pub must_gather_images: Vec<ForVersion>,
}

/// An image for a version, or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForVersion {
    version: Option<String>,
    image: String,
}

/// Why a text is not an image for a version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForVersionError {
    #[error("'{0}' is not a version, like 4.22 or 4.22.9")]
    Version(String),
    #[error("'{0}' is not an image reference, like quay.io/organization/image:tag")]
    Image(String),
}

impl std::str::FromStr for ForVersion {
    type Err = ForVersionError;

    fn from_str(text: &str) -> Result<Self, ForVersionError> {
        let (version, image) = text.split_once('=').map_or((None, text), |(version, image)| (Some(version), image));
        if let Some(bad) = version.filter(|text| !matches!(version::form(text), Some(Form::Minor | Form::Patch))) {
            return Err(ForVersionError::Version(bad.to_owned()));
        }
        if image.parse::<netcheck::image::reference::Name>().is_err() {
            return Err(ForVersionError::Image(image.to_owned()));
        }
        Ok(Self { version: version.map(str::to_owned), image: image.to_owned() })
    }
}

/// The image for a version: given for it, for its minor release, or for all; the last one wins.
fn image(images: &[ForVersion], version: &str) -> Option<String> {
    let minor = version::minor(version);
    let named = |wanted: Option<&str>| images.iter().rev().find(|own| own.version.as_deref() == wanted);
    let exact = named(Some(version));
    let found = exact.or_else(|| minor.as_deref().and_then(|minor| named(Some(minor)))).or_else(|| named(None));
    found.map(|found| found.image.clone())
}

impl ImageArgs {
    /// The options' images for a version.
    pub fn of_version(&self, version: &str) -> Payload {
        Payload {
            machine_config_operator: image(&self.mco_images, version),
            must_gather: image(&self.must_gather_images, version),
            coreos: None,
        }
    }

    /// Whether the options set everything, so that no release image must be read.
    pub fn names_all(&self, version: &str) -> bool {
        let named = self.of_version(version);
        named.machine_config_operator.is_some() && named.must_gather.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_version_wins_and_of_two_the_last() {
        let images: Vec<ForVersion> = ["r.io/all:1", "4.22=r.io/minor:1", "4.22.9=r.io/old:1", "4.22.9=r.io/exact:1"]
            .map(|text| text.parse().unwrap())
            .into();
        for (version, expected) in [
            ("4.22.9", "r.io/exact:1"),
            ("4.22.8", "r.io/minor:1"),
            ("4.22", "r.io/minor:1"),
            ("4.21.1", "r.io/all:1"),
            ("", "r.io/all:1"),
        ] {
            assert_eq!(image(&images, version).as_deref(), Some(expected), "{version}");
        }
        assert_eq!(image(&images[1..], "4.21.1"), None);
        assert!(!ImageArgs { mco_images: images, ..ImageArgs::default() }.names_all("4.22.9"));
    }

    #[test]
    fn what_names_no_image_is_refused() {
        for bad in ["x=r.io/a:1", "4.22=", "", "a b", "4.22=--privileged"] {
            assert!(bad.parse::<ForVersion>().is_err(), "{bad}");
        }
    }
}
