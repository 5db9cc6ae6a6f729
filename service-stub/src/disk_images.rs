//! Images for the disks of hosts: which host gets which.

use crate::releases::{
    Target, normal_architecture,
    version::{self, Version},
};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Names of processor architectures: the service's, then those in image file names.
const NAMED_PROCESSORS: [(&str, &[&str]); 4] = [
    ("x86_64", &["x86_64", "amd64"]),
    ("arm64", &["aarch64", "arm64"]),
    ("ppc64le", &["ppc64le"]),
    ("s390x", &["s390x"]),
];

/// An image that can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the file name of {} does not fit into a URL: use letters, digits, and . _ - +", path.display())]
    Name { path: PathBuf },
    #[error("two images are named {name}: give them different file names")]
    Twice { name: String },
}

/// The value of `--image`: a file for all hosts, or `VERSION:ARCH[:STREAM]=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskImage {
    /// None for all that no other image is for.
    target: Option<Target>,
    pub(crate) path: PathBuf,
}

impl From<PathBuf> for DiskImage {
    fn from(path: PathBuf) -> Self {
        Self { target: None, path }
    }
}

impl FromStr for DiskImage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match Target::split(text)? {
            Some((target, path)) => Self { target: Some(target), path: path.into() },
            None => PathBuf::from(text).into(),
        })
    }
}

/// The images, and their signatures.
#[derive(Debug, Default)]
pub(crate) struct DiskImages {
    files: BTreeMap<String, PathBuf>,
    /// Names of images in the order they were given, with the hosts they are for.
    in_order: Vec<(String, Option<Target>)>,
}

impl DiskImages {
    /// Opens all; a signature beside an image (`FILE.sig`) is served too.
    pub(crate) fn open(images: &[DiskImage]) -> Result<Self, ImageError> {
        let mut all = Self::default();
        for DiskImage { target, path } in images {
            readable(path)?;
            let name = all.add(path)?;
            all.in_order.push((name, target.clone()));
            let mut signature = path.clone().into_os_string();
            signature.push(".sig");
            let signature = PathBuf::from(signature);
            if signature.is_file() && !images.iter().any(|image| image.path == signature) {
                all.add(&signature)?;
            }
        }
        Ok(all)
    }

    fn add(&mut self, path: &Path) -> Result<String, ImageError> {
        let plain = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b));
        let name = path.file_name().and_then(|name| name.to_str()).filter(plain);
        let name = name.ok_or_else(|| ImageError::Name { path: path.into() })?.to_owned();
        match self.files.insert(name.clone(), path.into()) {
            None => Ok(name),
            Some(_) => Err(ImageError::Twice { name }),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// An image or a signature by its name.
    pub(crate) fn find(&self, name: &str) -> Option<(&str, &Path)> {
        self.files.get_key_value(name).map(|(name, path)| (name.as_str(), path.as_path()))
    }

    /// The image for hosts: of those for their architecture and stream that for their version, else for its minor release; else
    /// of those for all the first whose name contains their architecture, else the first that names none.
    pub(crate) fn choose(&self, hosts: &Target) -> Option<&str> {
        let architecture = normal_architecture(&hosts.cpu_architecture);
        let rank = |(_, target): &'_ (String, Option<Target>)| {
            let target = target.as_ref().filter(|target| target.cpu_architecture == architecture)?;
            let stream = stream_rank(&target.os_stream, &hosts.os_stream)?;
            let version = version_rank(&target.openshift_version, &hosts.openshift_version)?;
            Some((version, stream, Reverse(Version::parse(&target.openshift_version))))
        };
        let own = self.in_order.iter().filter_map(|image| Some((rank(image)?, image))).min_by(|a, b| a.0.cmp(&b.0));
        let for_all = || self.in_order.iter().filter(|(_, target)| target.is_none()).map(|(name, _)| name);
        let with = |wanted: Option<&str>| for_all().find(|name| named(name) == wanted);
        own.map(|(_, (name, _))| name).or_else(|| with(Some(architecture))).or_else(|| with(None)).map(String::as_str)
    }
}

/// Smaller is better: the wanted stream, then an image that names none. Where none is wanted, one that names none is first.
fn stream_rank(own: &str, wanted: &str) -> Option<u8> {
    match (own, wanted) {
        (own, wanted) if own == wanted => Some(0),
        ("", _) | (_, "") => Some(1),
        _ => None,
    }
}

/// Smaller is better: the version itself, its minor release, another version of that.
fn version_rank(own: &str, wanted: &str) -> Option<u8> {
    let minor = version::minor(wanted);
    match own {
        own if own == wanted => Some(0),
        own if Some(own) == minor.as_deref() => Some(1),
        own if minor.is_some() && version::minor(own) == minor => Some(2),
        _ => None,
    }
}

fn named(name: &str) -> Option<&'static str> {
    NAMED_PROCESSORS.iter().find(|(_, names)| names.iter().any(|part| name.contains(part))).map(|(own, _)| *own)
}

fn readable(path: &Path) -> Result<(), ImageError> {
    let check = || match File::open(path)?.metadata()?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file")),
    };
    check().map_err(|source| ImageError::Read { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn hosts(version: &str, architecture: &str, stream: &str) -> Target {
        Target {
            openshift_version: version.to_owned(),
            cpu_architecture: architecture.to_owned(),
            os_stream: stream.to_owned(),
        }
    }

    #[test]
    fn images_are_found_by_their_names_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["os.raw.gz", "os.raw.gz.sig", "other.raw", "bad name"] {
            std::fs::write(path(name), name).unwrap();
        }
        let open =
            |images: &[PathBuf]| DiskImages::open(&images.iter().cloned().map(DiskImage::from).collect::<Vec<_>>());
        let images = open(&[path("os.raw.gz"), path("other.raw")]).unwrap();
        assert_eq!(images.choose(&hosts("4.22", "x86_64", "")), Some("os.raw.gz"));
        assert_eq!(images.find("os.raw.gz.sig").unwrap().1, path("os.raw.gz.sig"), "found beside its image");
        for name in ["", ".", "..", "../os.raw.gz", "/etc/passwd", "bad name", "OS.raw.gz"] {
            assert!(images.find(name).is_none(), "{name}");
        }
        assert_eq!(images.choose(&hosts("", "arm64", "")), Some("os.raw.gz"), "it names no processor");
        assert!(matches!(open(&[path("bad name")]), Err(ImageError::Name { .. })));
        assert!(matches!(open(&[path("os.raw.gz"), path("os.raw.gz")]), Err(ImageError::Twice { .. })));
        assert!(matches!(open(&[path("gone")]), Err(ImageError::Read { .. })));
        assert!(matches!(open(&[directory.path().into()]), Err(ImageError::Read { .. })));
    }

    #[test]
    fn each_host_gets_the_image_of_its_version_processor_and_stream() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = [
            ("", "os.x86_64.raw"),
            ("", "os.aarch64.raw"),
            ("4.22:x86_64", "422"),
            ("4.22:x86_64:rhel-10", "422-ten"),
            ("4.22.9:x86_64", "4229"),
            ("4.21.1:x86_64", "4211"),
            ("4.21.7:x86_64", "4217"),
            ("4.22:amd", ""),
            ("4.20:arm64:rhel-9", "420-arm-nine"),
            ("4.20:arm64:rhel-10", "420-arm-ten"),
        ];
        let mut images = Vec::new();
        for (target, name) in arguments {
            let path = directory.path().join(name);
            let text =
                if target.is_empty() { path.display().to_string() } else { format!("{target}={}", path.display()) };
            match text.parse::<DiskImage>() {
                Ok(image) => {
                    std::fs::write(&path, "").unwrap();
                    images.push(image);
                }
                Err(error) => assert!(name.is_empty() && error.contains("architecture"), "{error}"),
            }
        }
        let images = DiskImages::open(&images).unwrap();
        for (version, architecture, stream, expected) in [
            ("4.22.9", "x86_64", "", Some("4229")),
            ("4.22.10", "x86_64", "", Some("422")),
            ("4.22.10-multi", "amd64", "", Some("422")),
            ("4.22", "x86_64", "rhel-10", Some("422-ten")),
            ("4.22.9", "x86_64", "rhel-10", Some("4229")),
            ("4.22.3", "x86_64", "rhel-9", Some("422")),
            ("4.21.3", "x86_64", "", Some("4217")),
            ("4.22.9", "aarch64", "", Some("os.aarch64.raw")),
            ("4.20.3", "aarch64", "rhel-10", Some("420-arm-ten")),
            ("4.20.3", "aarch64", "", Some("420-arm-nine")),
            ("4.20.3", "aarch64", "rhel-11", Some("os.aarch64.raw")),
            ("4.19", "", "", Some("os.x86_64.raw")),
            ("", "x86_64", "", Some("os.x86_64.raw")),
            ("4.22", "s390x", "", None),
        ] {
            assert_eq!(
                images.choose(&hosts(version, architecture, stream)),
                expected,
                "{version} {architecture} {stream}"
            );
        }
    }
}
