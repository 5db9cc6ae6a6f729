//! IP networks.

pub(crate) use api::Cidr;
