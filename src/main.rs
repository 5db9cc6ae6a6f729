//! The whole program: the host's commands, the service, and its clients.

mod memory;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator::new();

fn main() -> ExitCode {
    landfall::main::<landfall::Whole>(|| ALLOCATOR.serve_many_threads())
}
