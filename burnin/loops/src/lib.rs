//! The inner loops of burn-in, apart from all the rest: they are compiled for speed, the rest for size. Pure.

mod fill;
mod units;

pub use fill::{Fill, check, check_bytes, differ, fill, fill_bytes, sum};
pub use kernel::processor::Width;
pub use units::{UNITS, Unit};
