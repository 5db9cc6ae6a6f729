//! The host's program: what goes into a live system. It has all but the service and its clients.

use std::process::ExitCode;

fn main() -> ExitCode {
    landfall::main::<landfall::Host>(|| ())
}
