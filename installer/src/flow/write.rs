//! Writing the disk, with as many attempts as that is worth.

use super::{FlowError, Pace};
use crate::{host::Host, plan::ImageWrite};
use diskwrite::Event;
use kernel::Cancel;
use std::error::Error;

/// Writes one disk, with as many attempts as it may have. Each looks the disk up by the name given: kernel names move when
/// a controller resets between two attempts, stable links move with the disk.
pub fn write_disk(
    host: &dyn Host,
    write: &ImageWrite,
    ignition: Option<&[u8]>,
    cancel: &Cancel,
    pace: Pace,
    on_event: &mut dyn FnMut(&Event),
) -> Result<(), FlowError> {
    let mut attempt = 1;
    loop {
        let source = match host.write_image(write, ignition, cancel, on_event) {
            Ok(()) => return Ok(()),
            Err(source) if cancel.is_cancelled() => return Err(FlowError::WriteCancelled { source }),
            Err(error) => error,
        };
        let (transient, device, attempts) = (source.transient, write.device.clone(), write.attempts);
        let error = FlowError::Write { image: write.image.to_string(), device, attempt, attempts, source };
        if !transient || attempt >= attempts {
            return Err(error);
        }
        tracing::warn!(error = &error as &dyn Error, "trying again");
        if cancel.sleep(pace.write_retry) {
            return Err(FlowError::Cancelled("waiting to write the disk again"));
        }
        attempt += 1;
    }
}
