//! The agent of a discovered host: registers it with the service, polls for instructions and runs each in a child process
//! of the same program, so that a step that crashes, hangs or floods its output harms nothing but itself.
//!
//! It has no state: killing it at any time is fine, and it starts over.

pub mod agent;
pub mod beacon;
pub mod child;
pub mod cli;
mod clock;
pub mod config;
pub mod confine;
pub mod dropin;
pub mod dry;
pub mod media;
mod notify;
pub mod offline;
mod ourselves;
pub mod outbox;
mod outcome;
pub mod pace;
mod poll;
mod pretended;
pub mod privileges;
pub mod register;
pub mod rendezvous;
pub mod replay;
mod restart;
mod scheduler;
pub mod settings;
pub mod status;
pub mod steps;
pub mod upgrade;
