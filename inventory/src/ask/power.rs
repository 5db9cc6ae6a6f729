//! The machine's power, which its management controller can cut.

use super::{allowed::ChassisControl, devices};
use std::{fs::File, io};

/// Get Chassis Status (IPMI 2.0, 28.2): whether the controller answers, and has to do with the machine's power.
const CHASSIS_STATUS: (u8, u8) = (0x00, 0x01);

/// Why the power can't be cut.
#[derive(Debug, thiserror::Error)]
pub enum PowerError {
    #[error(
        "this machine's power cannot be cut: no management controller (BMC) was found; it needs one, and the kernel's modules ipmi_si \
         and ipmi_devintf"
    )]
    NoController(#[source] io::Error),
    #[error("the management controller (BMC) does not answer")]
    NoAnswer(#[source] io::Error),
    #[error("the management controller (BMC) refuses {what}: completion code {code:02x}h")]
    Refused { what: &'static str, code: u8 },
}

/// A management controller that can take the machine's power.
#[derive(Debug)]
pub struct PowerSwitch(File);

impl PowerSwitch {
    /// Finds the controller, which must answer.
    pub fn find() -> Result<Self, PowerError> {
        let node = devices::open_ipmi().map_err(PowerError::NoController)?;
        let (netfn, command) = CHASSIS_STATUS;
        let reply = devices::ipmi(&node, netfn, command, &[]).map_err(PowerError::NoAnswer)?;
        accepted("to report the state of its chassis", &reply)?;
        Ok(Self(node))
    }

    /// Turns the machine off and on again, or resets it where the controller does not turn it off: without a warning to what runs on it.
    pub fn cut(&self) -> Result<(), PowerError> {
        cut(&mut |control| {
            let (netfn, command, data) = control.request();
            kernel::ipmi::ipmi(&self.0, netfn, command, &data)
        })
    }
}

fn cut(send: &mut dyn FnMut(ChassisControl) -> io::Result<Vec<u8>>) -> Result<(), PowerError> {
    let cycled = send(ChassisControl::PowerCycle).map_err(PowerError::NoAnswer)?;
    accepted("a power cycle", &cycled).or_else(|_| {
        let reset = send(ChassisControl::HardReset).map_err(PowerError::NoAnswer)?;
        accepted("a power cycle and a hard reset", &reset)
    })
}

fn accepted(what: &'static str, reply: &[u8]) -> Result<(), PowerError> {
    match reply.first() {
        Some(0) => Ok(()),
        code => Err(PowerError::Refused { what, code: code.copied().unwrap_or(0xff) }),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::allowed::{Message, check},
        *,
    };

    #[test]
    fn a_controller_that_turns_nothing_off_resets() {
        let sent = |codes: [&[u8]; 2]| {
            let (mut sent, mut replies) = (Vec::new(), codes.into_iter());
            let done = cut(&mut |control| {
                sent.push(control);
                Ok(replies.next().unwrap().to_vec())
            });
            (sent, done.map_err(|error| error.to_string()))
        };
        let both = vec![ChassisControl::PowerCycle, ChassisControl::HardReset];
        assert_eq!(sent([&[0], &[]]), (vec![ChassisControl::PowerCycle], Ok(())));
        assert_eq!(sent([&[0xc1], &[0]]), (both.clone(), Ok(())));
        let refused = "the management controller (BMC) refuses a power cycle and a hard reset: completion code d5h";
        assert_eq!(sent([&[0xd5], &[0xd5]]), (both, Err(refused.to_owned())));
        assert!(sent([&[], &[]]).1.unwrap_err().ends_with("completion code ffh"));
        let lost = cut(&mut |_| Err(io::ErrorKind::TimedOut.into()));
        assert!(matches!(lost, Err(PowerError::NoAnswer(_))), "{lost:?}");
    }

    #[test]
    fn no_question_is_a_request_to_cut_the_power() {
        for control in [ChassisControl::PowerCycle, ChassisControl::HardReset] {
            let (netfn, command, data) = control.request();
            assert!(check(Message::Ipmi { netfn, command, data: &data }).is_err(), "{control:?}");
        }
    }
}
