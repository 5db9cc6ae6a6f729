//! What a machine's own log and registers say of its boot, for who reads a report. Nothing of it is proven: that takes a quote.

use crate::{
    Digest, Event, Pcr,
    event_log::{self, Fault},
    evidence::LOGGED,
    public::sha256,
};

/// Programs that are named, and arguments.
const MAX_NAMED: usize = 32;
/// Registers that the state of secure boot, programs, and arguments of GRUB, the kernel and systemd's stub go into.
const SECURE_BOOT: u8 = 7;
const PROGRAMS: u8 = 4;
const ARGUMENTS: [u8; 3] = [8, 9, 12];
/// 8be4df61-93ca-11d2-aa0d-00e098032b8c, UEFI's own variables.
const GLOBAL: [u8; 16] =
    [0x61, 0xdf, 0xe4, 0x8b, 0xca, 0x93, 0xd2, 0x11, 0xaa, 0x0d, 0x00, 0xe0, 0x98, 0x03, 0x2b, 0x8c];

/// A boot by its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Appraisal {
    /// Events that were measured.
    pub events: usize,
    /// Registers to whose values the log does not lead; none if no value of a register that the log explains is known.
    pub differing: Option<Vec<u8>>,
    /// Whether UEFI booted only what is signed, if it measured that.
    pub secure_boot: Option<bool>,
    /// What UEFI started: boot loaders, and a kernel that is a program of UEFI.
    pub programs: Vec<Event>,
    /// Arguments of kernels.
    pub arguments: Vec<Event>,
}

impl Appraisal {
    /// Of a log of the firmware, and what the registers of SHA-256 hold now.
    pub fn read(log: &[u8], pcrs: &[Pcr]) -> Result<Self, Fault> {
        let events = event_log::parse(log)?;
        let replayed = event_log::replay(&events);
        let known = pcrs.iter().filter(|pcr| LOGGED.contains(&pcr.index));
        let differing = known.clone().filter(|pcr| replayed.get(&pcr.index) != Some(&pcr.sha256)).map(|pcr| pcr.index);
        let named = |wanted: &dyn Fn(&Event) -> bool| {
            events.iter().filter(|event| event.is_measured() && wanted(event)).take(MAX_NAMED).cloned().collect()
        };
        let state = |enabled: u8| {
            let measured = secure_boot(enabled);
            events.iter().any(|event| event.pcr == SECURE_BOOT && event.sha256 == measured)
        };
        Ok(Self {
            events: events.iter().filter(|event| event.is_measured()).count(),
            differing: known.clone().next().map(|_| differing.collect()),
            secure_boot: match (state(0), state(1)) {
                (true, false) => Some(false),
                (false, true) => Some(true),
                _ => None,
            },
            programs: named(&|event| event.pcr == PROGRAMS && event.kind == "EV_EFI_BOOT_SERVICES_APPLICATION"),
            arguments: named(&is_arguments),
        })
    }
}

/// The log's text only says which event it is: the digest is what counts.
fn is_arguments(event: &Event) -> bool {
    ARGUMENTS.contains(&event.pcr)
        && match event.kind.as_str() {
            "EV_IPL" => event.pcr == 12 || event.description.starts_with("'kernel_cmdline: "),
            "EV_EVENT_TAG" => event.description.contains("LoadOptions"),
            _ => false,
        }
}

/// What is measured of the variable `SecureBoot` with that value (UEFI_VARIABLE_DATA).
fn secure_boot(value: u8) -> Digest {
    let name = "SecureBoot";
    let mut data = GLOBAL.to_vec();
    data.extend([u64::try_from(name.len()).unwrap_or_default(), 1].map(u64::to_le_bytes).concat());
    data.extend(name.encode_utf16().flat_map(u16::to_le_bytes));
    data.push(value);
    sha256(&data)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of these events: register, type, what is measured, what the log says of it.
    fn log(events: &[(u32, u32, &[u8], &[u8])]) -> Vec<u8> {
        let header = [&b"Spec ID Event03\0"[..], &[0; 8], &[1, 0, 0, 0, 0x0b, 0, 32, 0, 0]].concat();
        let mut log =
            [&[0, 0, 0, 0, 3, 0, 0, 0][..], &[0; 20], &[u8::try_from(header.len()).unwrap(), 0, 0, 0]].concat();
        log.extend(header);
        for (pcr, kind, measured, said) in events {
            log.extend([*pcr, *kind, 1].map(u32::to_le_bytes).concat());
            log.extend([&[0x0b, 0][..], &sha256(measured).0].concat());
            log.extend(u32::try_from(said.len()).unwrap().to_le_bytes());
            log.extend(*said);
        }
        log
    }

    fn variable(value: u8) -> Vec<u8> {
        let name: Vec<u8> = "SecureBoot".encode_utf16().flat_map(u16::to_le_bytes).collect();
        [&GLOBAL[..], &[10, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], &name, &[value]].concat()
    }

    /// Register 0 was not extended.
    fn registers(log: &[u8]) -> Vec<Pcr> {
        let replayed = event_log::replay(&event_log::parse(log).unwrap());
        [0, 4, 7, 8].map(|index| Pcr { index, sha256: replayed[&index] }).to_vec()
    }

    #[test]
    fn what_was_booted() {
        let (on, line) = (variable(1), b"kernel_cmdline: /vmlinuz quiet");
        let path = [&[4, 4, 8, 0, b'a', 0, b'b', 0][..], &[0x7f, 0xff, 4, 0]].concat();
        let image = [&[0; 24][..], &12_u64.to_le_bytes(), &path].concat();
        let log = log(&[
            (7, 0x8000_0001, &on, &on),
            (4, 0x8000_0003, b"shim", &image),
            (8, 0xd, b"/vmlinuz quiet", line),
            (8, 0xd, b"boot", b"grub_cmd: boot"),
        ]);
        let found = Appraisal::read(&log, &registers(&log)).unwrap();
        assert_eq!((found.events, found.secure_boot, found.differing), (4, Some(true), Some(Vec::new())));
        let [program] = &found.programs[..] else { panic!("{:?}", found.programs) };
        assert_eq!((program.sha256, program.description.as_str()), (sha256(b"shim"), "program 'ab' (says the log)"));
        let [arguments] = &found.arguments[..] else { panic!("{:?}", found.arguments) };
        assert_eq!(arguments.description, "'kernel_cmdline: /vmlinuz quiet'");
    }

    #[test]
    fn a_log_that_was_altered_leads_elsewhere() {
        let (on, off) = (variable(1), variable(0));
        let honest = log(&[(7, 0x8000_0001, &off, &off), (4, 0x8000_0003, b"shim", b"")]);
        let lying = log(&[(7, 0x8000_0001, &on, &on), (4, 0x8000_0003, b"shim", b"")]);
        let registers = registers(&honest);
        assert_eq!(Appraisal::read(&honest, &registers).unwrap().secure_boot, Some(false));
        assert_eq!(Appraisal::read(&lying, &registers).unwrap().differing, Some(vec![7]));
        // The text alone says nothing, nor do two states.
        let text = log(&[(7, 0x8000_0001, b"other", &on)]);
        assert_eq!(Appraisal::read(&text, &[]).unwrap().secure_boot, None);
        let both = log(&[(7, 0x8000_0001, &on, &on), (7, 0x8000_0001, &off, &off)]);
        let both = Appraisal::read(&both, &[]).unwrap();
        assert_eq!((both.secure_boot, both.differing), (None, None));
        assert_eq!(Appraisal::read(&honest[..honest.len() - 1], &[]), Err(Fault::Unsound(2)));
    }
}
