//! Images that a release is made of, as its release image names them. They are read from the registry in the background, once for
//! each image: no answer waits for them.

mod args;
mod known;
mod read;
mod reading;

pub use args::{ForVersion, ImageArgs};
pub use known::{Payload, Payloads, release_image};
pub use read::{PayloadError, parse};
pub use reading::{keep_reading, of_cluster, read_one};
