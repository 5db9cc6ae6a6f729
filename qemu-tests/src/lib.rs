//! Whole machines for tests: a VM driver, a switch between VMs, the service, and racks made of them.

pub mod accel;
pub mod arch;
pub mod bmc;
pub mod images;
pub mod interrupt;
pub mod media;
pub mod paths;
pub mod process;
pub mod qmp;
pub mod rack;
pub mod serial;
pub mod service;
pub mod shell;
pub mod stand_in;
pub mod switch;
mod sys;
pub mod table;
pub mod uplink;
pub mod view;
pub mod vm;
