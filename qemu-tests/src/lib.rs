//! Whole machines for tests: a VM driver, a switch between VMs, the service, and racks made of them.

pub mod accel;
pub mod paths;
pub mod process;
pub mod qmp;
pub mod serial;
pub mod switch;
mod sys;
pub mod uplink;
pub mod vm;
