//! The OS images that hosts boot: by version, architecture and release stream.

use super::version::{self, Version};
use super::{ARCHITECTURES, Catalogue, NotListed, Offer, SupportLevel, normal_architecture};
use crate::text::url_part;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    str::FromStr,
};

/// An OS image, as the list of them has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsImage {
    /// Release it belongs to, as `4.22` or in full.
    pub openshift_version: String,
    pub cpu_architecture: String,
    /// Where its live ISO is.
    pub url: String,
    /// Its own build.
    pub version: String,
    /// Release stream, as `rhel-10`; empty if the list names none.
    pub os_stream: String,
    /// Chosen where a request names no stream.
    pub default_os_stream: bool,
    /// It brings a service and the release's images along.
    pub offline: bool,
    /// Digest of the ISO, hexadecimal; empty if the list has none.
    pub sha256: String,
}

impl OsImage {
    /// Its file, if it is on this machine.
    pub fn path(&self) -> Option<&Path> {
        let path = Path::new(self.url.strip_prefix("file://").unwrap_or(&self.url));
        path.is_absolute().then_some(path)
    }
}

impl Catalogue {
    /// OS images are listed: only those can be booted.
    pub(crate) fn lists_os_images(&self) -> bool {
        !self.others_boot && self.os_images.iter().any(|image| !image.offline)
    }

    /// All OS images, in the operator's order.
    pub fn os_images(&self) -> &[OsImage] {
        &self.os_images
    }

    /// Adds ISOs for versions of their own. With `others_boot`, hosts of other versions boot another ISO, unless a list of OS images
    /// says which versions there are.
    pub fn add_os_images(&mut self, more: impl Iterator<Item = OsImage>, others_boot: bool) {
        self.others_boot = others_boot && !self.lists_os_images();
        self.os_images.extend(more);
    }

    /// The OS image for a version: exactly that, else its minor release's. Without a stream it is the default one's.
    pub(crate) fn os_image(&self, version: &str, architecture: &str, stream: &str) -> Result<&OsImage, NotListed> {
        let architecture = normal_architecture(architecture);
        let own = self.bootable(architecture)?;
        let streams: Vec<&OsImage> =
            own.into_iter().filter(|image| stream.is_empty() || image.os_stream == stream).collect();
        for_version(&streams, version)?.ok_or_else(|| NotListed::OsImage {
            version: version.to_owned(),
            architecture: architecture.to_owned(),
            stream: stream.to_owned(),
        })
    }

    /// The OS image of the newest release.
    pub(crate) fn latest_os_image(&self, architecture: &str, stream: &str) -> Result<&OsImage, NotListed> {
        let own = self.bootable(normal_architecture(architecture)).map_err(|_| NotListed::NoOsImages)?;
        let own: Vec<&OsImage> =
            own.into_iter().filter(|image| stream.is_empty() || image.os_stream == stream).collect();
        let newest = own.iter().max_by_key(|image| Version::parse(&image.openshift_version));
        let newest = newest.ok_or(NotListed::NoOsImages)?;
        preferred(own.iter().filter(|image| image.openshift_version == newest.openshift_version).copied())
            .ok_or(NotListed::NoOsImages)
    }

    fn bootable(&self, architecture: &str) -> Result<Vec<&OsImage>, NotListed> {
        let fits = |image: &&OsImage| !image.offline && image.cpu_architecture == architecture;
        let own: Vec<&OsImage> = self.os_images.iter().filter(fits).collect();
        if own.is_empty() { Err(NotListed::OsArchitecture(architecture.to_owned())) } else { Ok(own) }
    }

    /// The image that installs a version without any network.
    pub(crate) fn offline_image(&self, version: &str, architecture: &str) -> Option<&OsImage> {
        let architecture = normal_architecture(architecture);
        let fits = |image: &&OsImage| image.offline && image.cpu_architecture == architecture;
        let own: Vec<&OsImage> = self.os_images.iter().filter(fits).collect();
        for_version(&own, version).ok().flatten()
    }

    /// An image by its own build, else by the version that it is for.
    pub(crate) fn os_image_of_build(&self, build: &str, architecture: &str) -> Option<&OsImage> {
        let architecture = normal_architecture(architecture);
        let fits =
            |image: &&OsImage| url_part(&image.version) == url_part(build) && image.cpu_architecture == architecture;
        let of_build = self.os_images.iter().filter(|image| !image.offline).find(fits);
        of_build.or_else(|| self.os_image(build, architecture, "").ok())
    }

    /// Architectures with an OS image for a version, which is named in full or as a minor release.
    pub(crate) fn os_architectures(&self, version: &str) -> Vec<&str> {
        let minor = version::minor(version);
        let fits = |image: &&OsImage| {
            !image.offline && (image.openshift_version == version || Some(&image.openshift_version) == minor.as_ref())
        };
        let mut found = Vec::new();
        for image in self.os_images.iter().filter(fits) {
            if minor.is_some() && !found.contains(&image.cpu_architecture.as_str()) {
                found.push(image.cpu_architecture.as_str());
            }
        }
        found
    }

    /// Versions that can be installed without any network, as [`Catalogue::offers`] has those of releases.
    pub(crate) fn offline_offers(&self, version: Option<&str>, only_latest: bool) -> BTreeMap<String, Offer> {
        let mut offers: BTreeMap<String, Offer> = BTreeMap::new();
        for image in self.os_images.iter().filter(|image| image.offline) {
            let name = &image.openshift_version;
            let release = self.releases.iter().find(|release| release.version == *name);
            let level = release.map_or_else(|| SupportLevel::guess(name), |release| release.level());
            let offer = offers.entry(name.clone()).or_insert_with(|| Offer::new(name, level));
            offer.default |= release.is_some_and(|release| release.default);
            offer.add(&image.cpu_architecture);
        }
        let rank = |name: &str| {
            (offers.get(name).map(|offer| offer.support_level != SupportLevel::Beta), Version::parse(name))
        };
        let beaten = |name: &str| {
            offers.keys().any(|other| version::minor(other) == version::minor(name) && rank(other) > rank(name))
        };
        let wanted: Vec<String> = offers.keys().filter(|name| !only_latest || !beaten(name)).cloned().collect();
        offers.retain(|name, _| wanted.contains(name) && version.is_none_or(|text| name.contains(text)));
        offers
    }
}

fn for_version<'a>(images: &[&'a OsImage], version: &str) -> Result<Option<&'a OsImage>, NotListed> {
    let minor = version::minor(version).ok_or(NotListed::Malformed)?;
    let named = |name: &str| preferred(images.iter().filter(|image| image.openshift_version == name).copied());
    let patch = || {
        let patches = images.iter().filter(|image| version::minor(&image.openshift_version).as_deref() == Some(&minor));
        let newest = patches.max_by_key(|image| Version::parse(&image.openshift_version))?;
        named(&newest.openshift_version)
    };
    Ok(named(version).or_else(|| named(&minor)).or_else(patch))
}

/// Of images that differ in their streams: the default, else one that names none, else the first.
fn preferred<'a>(images: impl Iterator<Item = &'a OsImage>) -> Option<&'a OsImage> {
    let rank = |image: &&OsImage| (!image.default_os_stream, !image.os_stream.is_empty());
    images.min_by_key(rank)
}

/// The value of `--iso`: a file for every version, or `VERSION:ARCH[:STREAM]=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsoArgument {
    /// For all infra-envs of its architecture.
    Any(PathBuf),
    /// For those of its version and stream.
    Listed(OsImage),
}

impl IsoArgument {
    /// The files for every version, and the images for one.
    pub(crate) fn split(all: Vec<Self>) -> (Vec<PathBuf>, Vec<OsImage>) {
        let (mut any, mut listed) = (Vec::new(), Vec::new());
        for argument in all {
            match argument {
                Self::Any(path) => any.push(path),
                Self::Listed(image) => listed.push(image),
            }
        }
        (any, listed)
    }
}

fn is_release(version: &str) -> bool {
    matches!(version::form(version), Some(version::Form::Minor | version::Form::Patch))
}

/// The hosts that a file is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// As `4.22` or in full.
    pub openshift_version: String,
    pub cpu_architecture: String,
    /// Empty for any.
    pub os_stream: String,
}

impl Target {
    /// Splits `VERSION:ARCH[:STREAM]=FILE`; none for the name of a file alone.
    pub(crate) fn split(text: &str) -> Result<Option<(Self, &str)>, String> {
        // A path may hold these characters as well, but begins with no version.
        let named = text.split_once('=').and_then(|(names, file)| Some((names.split_once(':')?, file)));
        let Some(((version, rest), file)) = named.filter(|((version, _), _)| is_release(version)) else {
            return Ok(None);
        };
        let (architecture, stream) = rest.split_once(':').unwrap_or((rest, ""));
        if !ARCHITECTURES.contains(&architecture) {
            return Err(format!("{architecture:?} is not an architecture: it is one of {}", ARCHITECTURES.join(", ")));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !stream.chars().all(is_plain) || rest.ends_with(':') {
            return Err(format!("{stream:?} is not a stream, such as rhel-10"));
        }
        let target = Self {
            openshift_version: version.to_owned(),
            cpu_architecture: normal_architecture(architecture).to_owned(),
            os_stream: stream.to_owned(),
        };
        Ok(Some((target, file)))
    }
}

impl FromStr for IsoArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((target, file)) = Target::split(text)? else { return Ok(Self::Any(text.into())) };
        let path = std::path::absolute(file).map_err(|error| format!("{file:?} is not a file: {error}"))?;
        let url = path.to_str().ok_or_else(|| format!("{file:?} is not UTF-8"))?.to_owned();
        let Target { openshift_version, cpu_architecture, os_stream } = target;
        let build =
            if os_stream.is_empty() { openshift_version.clone() } else { format!("{openshift_version}-{os_stream}") };
        Ok(Self::Listed(OsImage {
            openshift_version,
            cpu_architecture,
            url,
            version: build,
            os_stream,
            ..OsImage::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(version: &str, stream: &str, url: &str) -> OsImage {
        OsImage {
            openshift_version: version.to_owned(),
            cpu_architecture: "x86_64".to_owned(),
            url: url.to_owned(),
            version: url.to_owned(),
            os_stream: stream.to_owned(),
            ..OsImage::default()
        }
    }

    fn catalogue(os_images: Vec<OsImage>) -> Catalogue {
        Catalogue { os_images, ..Catalogue::default() }
    }

    #[test]
    fn a_stream_chooses_among_images_of_a_version() {
        let default = OsImage { default_os_stream: true, ..image("4.22", "rhel-10", "ten") };
        let offline = OsImage { offline: true, ..image("4.22", "", "offline") };
        let catalogue = catalogue(vec![image("4.21", "", "old"), image("4.22", "rhel-9", "nine"), default, offline]);
        let found = |version: &str, stream: &str| {
            catalogue.os_image(version, "amd64", stream).map(|image| image.url.as_str()).map_err(|why| why.to_string())
        };
        for (version, stream, expected) in
            [("4.22", "rhel-9", "nine"), ("4.22.9", "rhel-10", "ten"), ("4.22.9", "", "ten"), ("4.21", "", "old")]
        {
            assert_eq!(found(version, stream).as_deref(), Ok(expected), "{version} {stream}");
        }
        assert_eq!(
            found("4.21", "rhel-9").unwrap_err(),
            "The requested OS image for version (4.21), CPU architecture (x86_64) and OS stream (rhel-9) isn't specified in OS images list"
        );
        assert_eq!(catalogue.latest_os_image("", "").unwrap().url, "ten");
        assert_eq!(catalogue.latest_os_image("", "rhel-9").unwrap().url, "nine");
        assert_eq!(catalogue.offline_image("4.22.9", "").unwrap().url, "offline");
        assert_eq!(catalogue.os_image_of_build("nine", "").unwrap().os_stream, "rhel-9");
        assert_eq!(catalogue.os_image_of_build("4.21.1", "").unwrap().url, "old");
    }

    #[test]
    fn versions_without_a_network_are_offered_apart() {
        let offline = |version: &str| OsImage { offline: true, ..image(version, "", version) };
        let all =
            [offline("4.21.3"), offline("4.22.8"), offline("4.22.9"), offline("4.22.10-rc.1"), image("4.23", "", "x")];
        let catalogue = catalogue(all.into());
        let names = |version, latest| catalogue.offline_offers(version, latest).into_keys().collect::<Vec<_>>();
        assert_eq!(names(None, false), ["4.21.3", "4.22.10-rc.1", "4.22.8", "4.22.9"]);
        assert_eq!(names(None, true), ["4.21.3", "4.22.9"]);
        assert_eq!(names(Some("22.8"), false), ["4.22.8"]);
        assert!(names(Some("22.8"), true).is_empty(), "it is not the latest");
        assert!(catalogue.lists_os_images());
        assert_eq!(catalogue.offline_offers(Some("rc"), false)["4.22.10-rc.1"].support_level, SupportLevel::Beta);
    }

    #[test]
    fn an_iso_is_for_a_version_or_for_all() {
        let listed = |text: &str| match text.parse() {
            Ok(IsoArgument::Listed(image)) => image,
            other => panic!("{text}: {other:?}"),
        };
        let one = listed("4.22:aarch64:rhel-10=/isos/a=b.iso");
        assert_eq!((one.path(), one.os_stream.as_str()), (Some(Path::new("/isos/a=b.iso")), "rhel-10"));
        assert_eq!((one.cpu_architecture.as_str(), one.version.as_str()), ("arm64", "4.22-rhel-10"));
        assert!(listed("4.22.9:x86_64=a.iso").path().unwrap().ends_with("a.iso"));
        for plain in ["live.iso", "/a:b=c.iso", "dir/4.22:x86_64=a.iso", "x=4.22:y.iso"] {
            assert_eq!(plain.parse(), Ok(IsoArgument::Any(plain.into())));
        }
        for bad in ["4.22:mips=a.iso", "4.22:x86_64:=a.iso", "4.22:x86_64:a b=a.iso"] {
            bad.parse::<IsoArgument>().unwrap_err();
        }
    }

    #[test]
    fn only_files_of_this_machine_are_served() {
        for (url, expected) in [
            ("file:///isos/a.iso", Some("/isos/a.iso")),
            ("/isos/a.iso", Some("/isos/a.iso")),
            ("https://example.com/a.iso", None),
            ("file://host/a.iso", None),
            ("a.iso", None),
        ] {
            assert_eq!(image("4.22", "", url).path(), expected.map(Path::new), "{url}");
        }
    }
}
