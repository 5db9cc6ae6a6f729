//! What fuzzers call: the function takes hostile bytes and does all that is done with them. Not part of the API.

use crate::dbus;

/// What the system bus sends after the authentication, up to the first message that is refused. Returns how many are not.
pub fn fuzz_dbus(bytes: &[u8]) -> usize {
    dbus::fuzz(bytes)
}
