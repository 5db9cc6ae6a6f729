//! Captured trees made by the tests themselves.

use crate::Root;
pub(crate) use kernel::netlink::attribute;
use std::ops::Deref;
use testkit::tree;

/// A tree that facts are read from.
pub(crate) struct Tree(tree::Tree);

impl Tree {
    /// A tree of these files: path and content.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self(tree::Tree::new(files))
    }

    pub(crate) fn root(&self) -> Root {
        Root::open(self.path()).unwrap()
    }
}

impl Deref for Tree {
    type Target = tree::Tree;

    fn deref(&self) -> &tree::Tree {
        &self.0
    }
}

/// Bytes of a structure, with fields at their places.
pub(crate) fn structure(len: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (at, field) in fields {
        bytes[*at..*at + field.len()].copy_from_slice(field);
    }
    bytes
}
