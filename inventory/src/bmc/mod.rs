//! The management controller (BMC), asked over its system interface: its addresses for the inventory (docs/compatibility.md#bmc), and
//! what it is for the report.
//!
//! The interface is slow, milliseconds a request at best, so only what the result needs is asked, and a controller that
//! does not answer once is not asked again.

mod lan;
mod reply;

pub(crate) use lan::{Channel, addresses, channels};
pub(crate) use reply::{device_id, guid};

use crate::{Root, ask::Question};
use std::{
    io,
    time::{Duration, Instant},
};

/// Where the kernel lists controllers that can be talked to.
const CLASS: &str = "/sys/class/ipmi";
/// For all requests together: a controller takes up to a hundred of them, and the inventory waits for the answers.
const LIMIT: Duration = Duration::from_secs(5);

/// Network function codes (IPMI 2.0 5.1).
const NETFN_APP: u8 = 0x06;
const NETFN_TRANSPORT: u8 = 0x0c;

/// Something that answers requests: the machine's controller, or a test's.
pub(crate) trait Controller {
    /// The reply's data, without the completion code. `None` if it is refused or no reply comes.
    fn request(&mut self, netfn: u8, command: u8, data: &[u8]) -> Option<Vec<u8>>;
}

/// The controller of a machine.
pub(crate) struct Machine<'a> {
    root: &'a Root,
    begun: Instant,
    is_lost: bool,
}

impl<'a> Machine<'a> {
    /// `None` without one that the kernel has a driver for; that costs one lookup.
    pub(crate) fn find(root: &'a Root) -> Option<Self> {
        if root.list(CLASS).is_empty() {
            tracing::debug!(looked_at = CLASS, "no management controller, or its driver ipmi_devintf is not loaded");
            return None;
        }
        Some(Self { root, begun: Instant::now(), is_lost: false })
    }

    fn ask(&mut self, question: &Question) -> io::Result<Vec<u8>> {
        if self.is_lost {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "given up"));
        }
        if self.root.is_live() && self.begun.elapsed() > LIMIT {
            self.is_lost = true;
            tracing::warn!(
                limit_s = LIMIT.as_secs(),
                "the management controller is too slow: skipping the other requests"
            );
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.root.ask(question).inspect_err(|error| {
            // What a captured machine's controller did not answer is missing; the next one may exist.
            if self.root.is_live() {
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
}

/// A controller whose replies are cut from these bytes, and all that is asked of one.
pub(crate) fn fuzz(bytes: &[u8]) {
    struct Noise<'a>(&'a [u8]);
    impl Controller for Noise<'_> {
        fn request(&mut self, _: u8, _: u8, _: &[u8]) -> Option<Vec<u8>> {
            let (len, rest) = self.0.split_first()?;
            let (reply, rest) = rest.split_at_checked(usize::from(len & 31))?;
            self.0 = rest;
            Some(reply.to_vec())
        }
    }
    addresses(&mut Noise(bytes));
    channels(&mut Noise(bytes));
    device_id(&mut Noise(bytes));
    guid(&mut Noise(bytes));
}

#[cfg(test)]
mod tests;
