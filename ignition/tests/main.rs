//! This package's tests as one program: each links the whole library.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

mod apply_rules;
mod bounded_yaml;
#[path = "differential/main.rs"]
mod differential;
mod hostile_root;
mod ignition_validate;
mod nm_initrd_generator;
#[allow(dead_code)]
mod real;
mod real_apply;
mod recorded;
#[path = "resources/main.rs"]
mod resources;
mod secrets;
