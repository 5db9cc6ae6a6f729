//! Captured trees made by the tests themselves.

use crate::Root;
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

/// An attribute of a netlink message.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).unwrap();
    let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
