//! The ground floor: system calls, ioctls and netlink, and the small tools that the crates above share. It depends on none of them.
//! All `unsafe` code that runs on a host is here.

pub mod attempt;
pub mod block;
pub mod butane;
pub mod bytes;
mod cancel;
pub mod clock;
mod columns;
pub mod commands;
pub mod confine;
mod device;
pub mod disk;
pub mod efi;
pub mod ethtool;
pub mod file_system;
pub mod filter;
pub mod fork;
pub mod hex;
mod in_full;
pub mod ipmi;
pub mod mapper;
pub mod mounts;
pub mod netlink;
pub mod newc;
pub mod notify;
pub mod order;
pub mod outputs;
pub mod processor;
pub mod program;
pub mod queue;
pub mod record;
pub mod region;
mod root;
pub mod rtnetlink;
pub mod socket;
pub mod supervise;
pub mod terminal;
pub mod udev;
pub mod units;
mod wrap;

pub use cancel::Cancel;
pub use columns::columns;
pub use device::DevNumber;
pub use in_full::in_full;
pub use root::Root;
pub use wrap::wrapped;
