//! What the PCI bus tells of its functions.

pub(crate) mod names;
