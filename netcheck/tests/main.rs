//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod claim;
mod dhcp;
mod dns;
#[path = "doctor/main.rs"]
mod doctor;
mod endpoint;
mod image;
mod lldp;
mod mesh;
mod mesh_flood;
mod mesh_oracle;
mod mesh_scale;
mod names;
mod ntp;
mod registry;
mod sweep;
mod tang;
