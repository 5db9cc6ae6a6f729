//! Does a machine hold under load? Processors, memory, disks and links work as hard as they can, and all that they do is verified.
//!
//! `facts` and `watch` read the machine through a root directory, `kinds` plans loads of the facts, `run` carries them out. Each kind of
//! load is a module: `cpu`, `memory`, `disk`, `net`.

pub mod cli;
mod cpu;
mod disk;
mod facts;
mod kinds;
mod list;
mod live;
mod load;
mod memory;
mod net;
mod page;
mod plan;
mod result;
mod run;
mod totals;
mod watch;
mod words;

pub use net::rounds::{Port, rounds};
