//! The whole program: the host's commands, the service, and its clients.

mod memory;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator::new();

/// By this `iso bake` recognises a program that includes the service.
#[used]
static SERVICE: &str = concat!("landfall with the service, version ", env!("CARGO_PKG_VERSION"), "\n");

fn main() -> ExitCode {
    landfall::main::<landfall::Whole>(|| ALLOCATOR.serve_many_threads())
}
