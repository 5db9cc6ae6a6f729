//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod aarch64;
mod attested_boot;
mod baked;
mod boot_order;
#[path = "butane/main.rs"]
mod butane;
mod certified_machines;
mod common;
mod copy_network;
#[path = "crash/main.rs"]
mod crash;
mod demo;
mod dirty_disks;
mod disks;
mod disks_stage;
mod driver;
mod encrypted_disk;
#[path = "common/facts.rs"]
mod facts;
#[path = "hardware/main.rs"]
mod hardware;
mod identity;
mod install_roles;
mod install_single;
mod network;
mod offline;
mod rendezvous;
mod static_network;
mod systemd_live;
mod up;
