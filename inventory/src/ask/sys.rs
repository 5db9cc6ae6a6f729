//! ioctls of devices and of network interfaces: the one place with unsafe code.
#![allow(unsafe_code)]

use std::{fs::File, io};

/// INQUIRY of a vital product data page by `SG_IO`.
pub(super) fn scsi_page(_disk: &File, _page: u8) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ata_identify(_: &File) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ata_smart_data(_: &File) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ata_smart_thresholds(_: &File) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn nvme_controller(_: &File) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn nvme_health(_: &File) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ethtool_driver(_: &str) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ethtool_feature_names(_: &str) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ethtool_features(_: &str) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ethtool_private_flag_names(_: &str) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ethtool_private_flags(_: &str) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ethtool_permanent_address(_: &str) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn ipmi(_: &File, _netfn: u8, _command: u8, _data: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}
