//! The versions of Butane's specification, and what they have beside Ignition's fields (docs/compatibility.md#butane).

use crate::model::part::Part;
use crate::model::shape::Shape;
use crate::model::{Cex, Owner, Tang, Version};

/// By the minor version of `fcos`: Ignition's version.
const IGNITION: [Version; 8] = [
    Version::V3_0,
    Version::V3_1,
    Version::V3_2,
    Version::V3_2,
    Version::V3_3,
    Version::V3_4,
    Version::V3_5,
    Version::V3_6,
];
/// From which minor version of `openshift` 4 on it is which minor version of `fcos`.
const OPENSHIFT: [(u8, u8); 3] = [(8, 3), (14, 5), (19, 6)];
const NEWEST_OPENSHIFT: u8 = 22;
/// Variants of Butane that are not read here.
const OTHER_VARIANTS: [&str; 3] = ["flatcar", "r4e", "fiot"];

/// Why a document's variant and version are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditionError {
    #[error("no variant is given: write `variant: fcos` or `variant: openshift`")]
    NoVariant,
    #[error("variant '{0}' is not supported: fcos and openshift are")]
    OtherVariant(&'static str),
    #[error("variant 'rhcos' was removed from Butane: use openshift")]
    Removed,
    #[error("'{}' is not a variant: fcos and openshift are", .0.escape_debug())]
    UnknownVariant(String),
    #[error("'{}' is not a version: three numbers are, such as 1.5.0", .0.escape_debug())]
    NoVersion(String),
    #[error("version '{}' is experimental and not supported: {known}", version.escape_debug())]
    Experimental { version: String, known: String },
    #[error("version '{}' is not known: {known}", version.escape_debug())]
    UnknownVersion { version: String, known: String },
}

/// A version of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edition {
    /// The minor version of `openshift`, if it is that variant.
    pub openshift: Option<u8>,
    /// The minor version of `fcos`, or of the one that `openshift` is based on.
    pub fcos: u8,
    pub ignition: Version,
}

impl Edition {
    pub(super) fn find(variant: &str, version: &str) -> Result<Self, EditionError> {
        let (is_openshift, major) = match variant {
            "" => return Err(EditionError::NoVariant),
            "fcos" => (false, 1),
            "openshift" => (true, 4),
            "rhcos" => return Err(EditionError::Removed),
            _ => {
                let other = OTHER_VARIANTS.into_iter().find(|other| *other == variant);
                let unknown = || EditionError::UnknownVariant(variant.chars().take(40).collect());
                return Err(other.map_or_else(unknown, EditionError::OtherVariant));
            }
        };
        let shown: String = version.chars().take(40).collect();
        let (numbers, is_experimental) = match version.split_once('-') {
            Some((numbers, _)) => (numbers, true),
            None => (version, false),
        };
        let numbers: Option<Vec<u64>> = numbers.split('.').map(|number| number.parse().ok()).collect();
        let Some(&[found_major, minor, patch]) = numbers.as_deref() else { return Err(EditionError::NoVersion(shown)) };
        let [(oldest, _), ..] = OPENSHIFT;
        let known = if is_openshift {
            format!("openshift has 4.{oldest}.0 to 4.{NEWEST_OPENSHIFT}.0")
        } else {
            format!("fcos has 1.0.0 to 1.{}.0", IGNITION.len() - 1)
        };
        if is_experimental {
            return Err(EditionError::Experimental { version: shown, known });
        }
        let minor = u8::try_from(minor).ok().filter(|_| (found_major, patch) == (major, 0));
        let edition = minor.and_then(|minor| if is_openshift { Self::openshift(minor) } else { Self::fcos(minor) });
        edition.ok_or(EditionError::UnknownVersion { version: shown, known })
    }

    fn fcos(minor: u8) -> Option<Self> {
        let ignition = *IGNITION.get(usize::from(minor))?;
        Some(Self { openshift: None, fcos: minor, ignition })
    }

    fn openshift(minor: u8) -> Option<Self> {
        let base = OPENSHIFT.iter().rev().find(|(first, _)| *first <= minor && minor <= NEWEST_OPENSHIFT)?.1;
        Some(Self { openshift: Some(minor), ..Self::fcos(base)? })
    }

    /// The fields of an object: key and what it holds.
    pub(super) fn fields(self, object: &'static Shape) -> impl Iterator<Item = (&'static str, &'static Shape)> {
        let (name, fields) = match object {
            Shape::Object { name, fields } => (*name, *fields),
            _ => ("", &[][..]),
        };
        let ignition = fields.iter().filter(move |field| field.since <= self.ignition);
        // It follows from the document's own version.
        let ignition = ignition.filter(move |field| (name, field.key) != ("Ignition", "version"));
        let own = EXTRAS.iter().filter(move |extra| extra.of == name && extra.since <= self.fcos);
        let own = own.filter(move |extra| !extra.is_openshift || self.openshift.is_some());
        ignition.map(|field| (field.key, field.shape)).chain(own.map(|extra| (extra.key, extra.shape)))
    }
}

impl std::fmt::Display for Edition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.openshift {
            Some(minor) => write!(f, "openshift 4.{minor}.0"),
            None => write!(f, "fcos 1.{}.0", self.fcos),
        }
    }
}

/// A field that Ignition does not have.
struct Extra {
    /// The object it is in.
    of: &'static str,
    key: &'static str,
    /// The minor version of `fcos`.
    since: u8,
    is_openshift: bool,
    shape: &'static Shape,
}

const fn extra(of: &'static str, key: &'static str, since: u8, shape: &'static Shape) -> Extra {
    Extra { of, key, since, is_openshift: false, shape }
}

const fn openshift(of: &'static str, key: &'static str, shape: &'static Shape) -> Extra {
    Extra { of, key, since: 0, is_openshift: true, shape }
}

const TEXTS: &Shape = &Shape::List(&Shape::Text, &[]);

/// An object with fields of this table alone.
const fn object(name: &'static str) -> Shape {
    Shape::Object { name, fields: &[] }
}

const EXTRAS: &[Extra] = &[
    extra("Document", "variant", 0, &Shape::Text),
    extra("Document", "version", 0, &Shape::Text),
    extra("Document", "bootDevice", 3, &object("BootDevice")),
    extra("BootDevice", "layout", 3, &Shape::Text),
    extra("BootDevice", "luks", 3, &object("BootDeviceLuks")),
    extra("BootDevice", "mirror", 3, &object("BootDeviceMirror")),
    extra("BootDeviceLuks", "cex", 6, <Cex as Part<'static>>::SHAPE),
    extra("BootDeviceLuks", "device", 6, &Shape::Text),
    extra("BootDeviceLuks", "discard", 5, &Shape::Flag),
    extra("BootDeviceLuks", "tang", 3, &Shape::List(<Tang<'static> as Part<'static>>::SHAPE, &[])),
    extra("BootDeviceLuks", "threshold", 3, &Shape::Number),
    extra("BootDeviceLuks", "tpm2", 3, &Shape::Flag),
    extra("BootDeviceMirror", "devices", 3, TEXTS),
    extra("Document", "grub", 5, &object("Grub")),
    extra("Grub", "users", 5, &Shape::List(&object("GrubUser"), &[])),
    extra("GrubUser", "name", 5, &Shape::Text),
    extra("GrubUser", "passwordHash", 5, &Shape::Text),
    extra("Resource", "inline", 0, &Shape::Text),
    extra("Resource", "local", 1, &Shape::Text),
    extra("Reference", "inline", 1, &Shape::Text),
    extra("Reference", "local", 1, &Shape::Text),
    extra("Filesystem", "withMountUnit", 1, &Shape::Flag),
    extra("Storage", "trees", 1, &Shape::List(&object("Tree"), &[])),
    extra("Tree", "local", 1, &Shape::Text),
    extra("Tree", "path", 1, &Shape::Text),
    extra("Tree", "user", 7, <Owner<'static> as Part<'static>>::SHAPE),
    extra("Tree", "group", 7, <Owner<'static> as Part<'static>>::SHAPE),
    extra("Tree", "fileMode", 7, &Shape::Number),
    extra("Tree", "dirMode", 7, &Shape::Number),
    extra("PasswdUser", "sshAuthorizedKeysLocal", 5, TEXTS),
    extra("Unit", "contentsLocal", 5, &Shape::Text),
    extra("Dropin", "contentsLocal", 5, &Shape::Text),
    openshift("Document", "metadata", &object("Metadata")),
    openshift("Metadata", "name", &Shape::Text),
    openshift("Metadata", "labels", &Shape::Map),
    openshift("Document", "openshift", &object("OpenShift")),
    openshift("OpenShift", "extensions", TEXTS),
    openshift("OpenShift", "fips", &Shape::Flag),
    openshift("OpenShift", "kernelArguments", TEXTS),
    openshift("OpenShift", "kernelType", &Shape::Text),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_ignitions() {
        for (variant, version, ignition) in [
            ("fcos", "1.0.0", Version::V3_0),
            ("fcos", "1.3.0", Version::V3_2),
            ("fcos", "1.7.0", Version::V3_6),
            ("openshift", "4.8.0", Version::V3_2),
            ("openshift", "4.13.0", Version::V3_2),
            ("openshift", "4.14.0", Version::V3_4),
            ("openshift", "4.22.0", Version::V3_5),
        ] {
            let edition = Edition::find(variant, version).unwrap();
            assert_eq!((edition.ignition, edition.to_string()), (ignition, format!("{variant} {version}")));
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (variant, version, expected) in [
            ("", "1.0.0", "no variant"),
            ("flatcar", "1.0.0", "'flatcar' is not supported"),
            ("r4e", "1.0.0", "'r4e' is not supported"),
            ("fiot", "1.0.0", "'fiot' is not supported"),
            ("rhcos", "0.1.0", "use openshift"),
            ("fedora", "1.0.0", "'fedora' is not a variant"),
            ("fcos", "", "'' is not a version"),
            ("fcos", "1.5", "'1.5' is not a version"),
            ("fcos", "1.8.0", "fcos has 1.0.0 to 1.7.0"),
            ("fcos", "1.5.1", "not known"),
            ("fcos", "1.8.0-experimental", "'1.8.0-experimental' is experimental"),
            ("openshift", "4.7.0", "openshift has 4.8.0 to 4.22.0"),
            ("openshift", "4.23.0", "not known"),
            ("openshift", "4.23.0-experimental", "experimental"),
        ] {
            let error = Edition::find(variant, version).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
