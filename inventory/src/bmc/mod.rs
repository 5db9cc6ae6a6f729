//! The management controller (BMC), asked over its system interface: its addresses for the inventory (docs/compatibility.md#bmc), and
//! what it is for the report: its firmware, sensors, parts and event log.
//!
//! The interface is slow, milliseconds a request at best, so only what the result needs is asked, and a controller that
//! does not answer once is not asked again.

mod events;
mod lan;
mod part;
mod reply;
mod sensor;
mod text;
mod words;

pub use events::{Event, EventLog};
pub(crate) use lan::{Channel, addresses, channels};
pub use part::{Part, PartBoard, PartChassis, PartProduct, SupplyRating};
pub(crate) use reply::{device_id, guid, users};
pub use sensor::{Satellite, Sensor};

use crate::{Root, ask::Question};
use std::{
    io,
    time::{Duration, Instant},
};

/// Where the kernel lists controllers that can be talked to.
const CLASS: &str = "/sys/class/ipmi";
/// For all requests of the inventory: a controller takes up to a hundred of them, and the inventory waits for the answers.
const LIMIT: Duration = Duration::from_secs(5);
/// The same for a report, which asks hundreds of sensors.
const REPORT_LIMIT: Duration = Duration::from_secs(60);

/// Network function codes (IPMI 2.0 5.1).
const NETFN_APP: u8 = 0x06;
const NETFN_STORAGE: u8 = 0x0a;
const NETFN_TRANSPORT: u8 = 0x0c;

/// Something that answers requests: the machine's controller, or a test's.
pub(crate) trait Controller {
    /// The reply's data, without the completion code. `None` if it is refused or no reply comes.
    fn request(&mut self, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>>;

    /// All sensor data records, one behind the other.
    fn sensor_records(&mut self) -> Option<Vec<u8>>;

    /// The data of a part.
    fn part(&mut self, device: u8) -> Option<Vec<u8>>;

    /// The last entries of the event log, the oldest first.
    fn events(&mut self, count: u8) -> Option<Vec<u8>>;
}

/// Sensors, parts and the event log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contents {
    pub sensors: Vec<Sensor>,
    pub satellites: Vec<Satellite>,
    pub parts: Vec<Part>,
    pub event_log: Option<EventLog>,
}

/// What the controller measures and stores. The short comes first: its time is bounded.
pub(crate) fn contents(controller: &mut impl Controller) -> Contents {
    let records = controller.sensor_records().map(|bytes| sensor::Records::parse(&bytes)).unwrap_or_default();
    let event_log = events::event_log(controller, &records);
    let controller_part = Part { name: "controller".to_owned(), ..Part::default() };
    let located = records.parts.iter().map(|found| Part {
        name: found.name.clone().unwrap_or_else(|| format!("FRU {}", found.device)),
        device: found.device,
        entity: found.entity.clone(),
        ..Part::default()
    });
    let mut places: Vec<Part> = located.collect();
    // The controller's own is always there, and mostly has no record.
    if places.iter().all(|place| place.device != 0) {
        places.insert(0, controller_part);
    }
    kernel::order::sort_by_key(&mut places, |place| place.device);
    places.dedup_by_key(|place| place.device);
    let parts = places.into_iter().filter_map(|place| {
        let Part { name, device, entity, .. } = place;
        Some(Part { name, device, entity, ..part::parse(&controller.part(device)?)? })
    });
    let parts = parts.collect();
    Contents { event_log, parts, sensors: records.read(controller), satellites: records.satellites }
}

/// Serial numbers and asset tags in the data of a part.
pub(crate) fn part_serials(data: &[u8]) -> Vec<String> {
    part::serials(data)
}

/// Data of a part that were changed, with right checksums where the old had them; all else as it is.
pub(crate) fn with_part_sums(old: &[u8], new: Vec<u8>) -> Vec<u8> {
    part::with_sums(old, new)
}

/// The controller of a machine.
pub(crate) struct Machine<'a> {
    root: &'a Root,
    begun: Instant,
    limit: Duration,
    is_lost: bool,
}

impl<'a> Machine<'a> {
    /// `None` without one that the kernel has a driver for; that costs one lookup.
    pub(crate) fn find(root: &'a Root) -> Option<Self> {
        if root.list(CLASS).is_empty() {
            tracing::debug!(looked_at = CLASS, "no management controller, or its driver ipmi_devintf is not loaded");
            return None;
        }
        Some(Self { root, begun: Instant::now(), limit: LIMIT, is_lost: false })
    }

    /// With the time that a report has.
    pub(crate) fn for_report(self) -> Self {
        Self { limit: REPORT_LIMIT, ..self }
    }

    fn ask(&mut self, question: &Question) -> io::Result<Vec<u8>> {
        if self.is_lost {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "given up"));
        }
        if self.root.is_live() && self.begun.elapsed() > self.limit {
            self.is_lost = true;
            tracing::warn!(
                limit_s = self.limit.as_secs(),
                "the management controller is too slow: skipping the other requests"
            );
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.root.ask(question).inspect_err(|error| {
            // What a captured machine's controller did not answer is missing; the next one may exist. So it is with a request
            // that it refuses.
            if self.root.is_live() && error.kind() != io::ErrorKind::Unsupported {
                self.is_lost = true;
                tracing::warn!(%error, "no more requests are sent to the management controller");
            }
        })
    }
}

impl Controller for Machine<'_> {
    fn request(&mut self, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>> {
        let question = Question::Ipmi { netfn, command, data: data.to_vec() };
        match self.ask(&question).ok()?.split_first()? {
            (0, reply) => Some(reply.to_vec()),
            (code, _) => {
                let code = format!("{code:02x}");
                tracing::debug!(netfn, command, ?data, code, "the management controller refused the request");
                None
            }
        }
    }

    fn sensor_records(&mut self) -> Option<Vec<u8>> {
        self.ask(&Question::SensorRecords).ok()
    }

    fn part(&mut self, device: u8) -> Option<Vec<u8>> {
        self.ask(&Question::PartData { device }).ok()
    }

    fn events(&mut self, count: u8) -> Option<Vec<u8>> {
        self.ask(&Question::Events { count }).ok()
    }
}

/// A controller whose replies are cut from these bytes, and all that is asked of one.
pub(crate) fn fuzz(bytes: &[u8]) {
    struct Noise<'a>(&'a [u8]);
    impl Noise<'_> {
        fn cut(&mut self, most: u8) -> Option<Vec<u8>> {
            let (len, rest) = self.0.split_first()?;
            let (reply, rest) = rest.split_at_checked(usize::from(len & most))?;
            self.0 = rest;
            Some(reply.to_vec())
        }
    }
    impl Controller for Noise<'_> {
        fn request(&mut self, _: u8, _: u8, _: &[u8]) -> Option<Vec<u8>> {
            self.cut(31)
        }

        fn sensor_records(&mut self) -> Option<Vec<u8>> {
            self.cut(255)
        }

        fn part(&mut self, _: u8) -> Option<Vec<u8>> {
            self.cut(255)
        }

        fn events(&mut self, _: u8) -> Option<Vec<u8>> {
            self.cut(127)
        }
    }
    addresses(&mut Noise(bytes));
    channels(&mut Noise(bytes));
    device_id(&mut Noise(bytes));
    guid(&mut Noise(bytes));
    users(&mut Noise(bytes), None);
    contents(&mut Noise(bytes));
    // What a longer list or part may be.
    sensor::Records::parse(bytes);
    part::parse(bytes);
    part::serials(bytes);
}

#[cfg(test)]
mod tests;
