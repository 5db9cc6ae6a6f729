//! Registries of images: docker-registry itself, and one that answers as a test wants.

mod docker;
mod images;

pub use docker::{PASSWORD, Registry, USER};
pub use images::{Images, digest, layer};
