//! The kinds of load, each declared once.

use crate::{cpu, disk, memory, net, plan::Kind};

/// All kinds, in the order in which they begin: each when those before it have taken what they need, so that the speed of memory is
/// measured before the rest of the machine works.
pub(crate) const KINDS: [Kind; 4] = [memory::KIND, cpu::KIND, disk::KIND, net::KIND];
