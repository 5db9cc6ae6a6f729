//! `landfall console`: what a live host does, on a steady screen, and forms for its network and its service.
//!
//! `screen` is a pure model: keys and events change it and give actions, and it draws itself into a frame. `facts` gathers what it
//! shows, `jobs` carries out actions, each in its own thread, and `cli` joins them on a terminal.

pub mod cli;
mod dbus;
mod facts;
mod form;
mod frame;
pub mod fuzzing;
mod jobs;
mod keys;
mod network;
mod network_manager;
mod screen;
mod terminal;
