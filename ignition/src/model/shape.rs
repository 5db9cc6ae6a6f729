//! The parts of a config as data, for readers that follow the schema by themselves.

use super::version::Version;

pub(crate) enum Shape {
    Text,
    Number,
    Flag,
    /// Of what, and the fields by which an entry is known.
    List(&'static Shape, &'static [&'static str]),
    Object {
        name: &'static str,
        fields: &'static [Field],
    },
    /// Text by keys of any name.
    Map,
}

pub(crate) struct Field {
    pub key: &'static str,
    pub since: Version,
    pub shape: &'static Shape,
}

/// The version that is named, or the first of all.
pub(crate) const fn first(named: &[Version]) -> Version {
    match named {
        [version, ..] => *version,
        [] => Version::V3_0,
    }
}
