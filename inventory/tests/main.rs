//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod captures;
mod common;
mod facts;
mod live;
mod many_disks;
mod odd_machines;
mod oracles;
mod recorded;
mod report_recorded;
#[path = "smbios_dmidecode/main.rs"]
mod smbios_dmidecode;
mod wire_shape;
