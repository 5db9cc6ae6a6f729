//! The images of a release, as its release image names them. Release images are read in the background, once each: no answer waits
//! for them.

mod args;
mod known;
mod read;
mod reading;

pub use args::{ForVersion, ImageArgs};
pub use known::{Payload, Payloads, release_image};
pub use read::{PayloadError, parse};
pub use reading::{keep_reading, of_cluster, read_one};
