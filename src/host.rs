//! The host's program, which goes into live systems: all commands except the service and its clients.

use std::process::ExitCode;

fn main() -> ExitCode {
    landfall::main::<landfall::Host>(|| ())
}
