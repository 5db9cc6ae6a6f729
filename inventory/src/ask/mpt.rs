//! What a SAS adapter of the drivers `mpt2sas` and `mpt3sas` is asked: configuration pages, in as many messages as it takes
//! (drivers/scsi/mpt3sas/mpi/mpi2_cnfg.h). Pure but for what exchanges a message for a reply.

use super::{
    Mpt,
    allowed::{MPT_CONFIGURATION, MPT_EXTENDED, MPT_HEADER, MPT_READ, Message, check},
};
use kernel::{
    bytes::le16,
    mpt::{self, MESSAGE_BYTES},
};
use std::{collections::BTreeSet, fs::File, io};

/// Longer than any page that is read; they have some 300 bytes.
const MAX_PAGE_BYTES: usize = 4096;
/// More than any firmware has.
const MAX_PAGES: usize = 256;
/// Where a message and its reply have the page's header: version, length in words, number and type.
const HEADER_AT: usize = 0x14;
const ADDRESS_AT: usize = 0x18;
/// The reply's status; the topmost bit says that there is more in a log.
const STATUS_AT: usize = 0x0e;
/// Forms of an address that mean the page of a handle itself. Without one it means the page after that of a handle or number.
const VOLUME: u32 = 1 << 28;
const DEVICE: u32 = 2 << 28;

/// A type of pages, by its number in a message or, from 10h on, in the field for extended ones; and the page's number.
#[derive(Clone, Copy)]
struct Kind(u8, u8);

const TEMPERATURES: Kind = Kind(0x00, 7);
const VOLUMES: Kind = Kind(0x08, 0);
const VOLUME_NAME: Kind = Kind(0x08, 1);
const DRIVES: Kind = Kind(0x0a, 0);
const SAS_DEVICE: Kind = Kind(0x12, 0);

/// Sends a message, which reads into the buffer, and gives its reply.
type Exchange<'a> = &'a mut dyn FnMut([u8; MESSAGE_BYTES], &mut [u8]) -> io::Result<Vec<u8>>;

/// The answer of the adapter of that number behind the driver's node.
pub(super) fn answer(node: &File, adapter: u32, ask: Mpt) -> io::Result<Vec<u8>> {
    match ask {
        Mpt::Info => mpt::info(node, adapter),
        Mpt::Place(handle) => Ok(mpt::place(node, adapter, handle)?.map(u32::to_le_bytes).concat()),
        _ => pages(&mut |message, data| mpt::message(node, adapter, message, data), ask),
    }
}

fn pages(exchange: Exchange<'_>, ask: Mpt) -> io::Result<Vec<u8>> {
    match ask {
        Mpt::Temperatures => page(exchange, TEMPERATURES, 0),
        Mpt::VolumeName(handle) => page(exchange, VOLUME_NAME, VOLUME | u32::from(handle)),
        Mpt::Device(handle) => page(exchange, SAS_DEVICE, DEVICE | u32::from(handle)),
        // The page tells the handle, or the number of the drive.
        Mpt::Volumes => walk(exchange, VOLUMES, 0xffff, |page| le16(page, 4)),
        Mpt::Drives => walk(exchange, DRIVES, 0xff, |page| page.get(7).copied().map(u16::from)),
        Mpt::Info | Mpt::Place(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// All pages of a kind, one behind the other; the firmware finds the next one by what the last one tells.
fn walk(exchange: Exchange<'_>, kind: Kind, first: u16, key: fn(&[u8]) -> Option<u16>) -> io::Result<Vec<u8>> {
    let (mut all, mut seen, mut last) = (Vec::new(), BTreeSet::new(), first);
    while seen.len() < MAX_PAGES {
        let page = match page(exchange, kind, last.into()) {
            Ok(page) => page,
            // There is no further one, or none at all.
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        let Some(next) = key(&page).filter(|next| seen.insert(*next)) else { break };
        all.extend(page);
        last = next;
    }
    Ok(all)
}

/// The header first, which tells the length, then the page.
fn page(exchange: Exchange<'_>, kind: Kind, address: u32) -> io::Result<Vec<u8>> {
    let Kind(kind, number) = kind;
    let is_extended = kind >= 0x10;
    let mut message = [0; MESSAGE_BYTES];
    (message[0], message[3]) = (MPT_HEADER, MPT_CONFIGURATION);
    (message[HEADER_AT + 2], message[HEADER_AT + 3]) = (number, if is_extended { MPT_EXTENDED } else { kind });
    message[6] = if is_extended { kind } else { 0 };
    message[ADDRESS_AT..].copy_from_slice(&address.to_le_bytes());
    let header = send(exchange, message, &mut [])?;
    let words = if is_extended { le16(&header, 4) } else { header.get(HEADER_AT + 1).copied().map(u16::from) };
    let len = words.map_or(0, usize::from) * 4;
    if len == 0 || len > MAX_PAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a configuration page of {len} bytes")));
    }
    // As the header has them.
    for at in [4, 5, HEADER_AT, HEADER_AT + 1] {
        message[at] = header.get(at).copied().unwrap_or(0);
    }
    message[0] = MPT_READ;
    let mut page = vec![0; len];
    send(exchange, message, &mut page)?;
    Ok(page)
}

fn send(exchange: Exchange<'_>, message: [u8; MESSAGE_BYTES], data: &mut [u8]) -> io::Result<Vec<u8>> {
    check(Message::Mpt(&message))?;
    let reply = exchange(message, data)?;
    match le16(&reply, STATUS_AT).filter(|_| reply.get(3) == Some(&MPT_CONFIGURATION)).map(|status| status & 0x7fff) {
        Some(0) => Ok(reply),
        // MPI2_IOCSTATUS_CONFIG_INVALID_TYPE and _INVALID_PAGE.
        Some(0x21 | 0x22) => Err(io::ErrorKind::NotFound.into()),
        Some(status) => Err(io::Error::other(format!("the firmware refuses to show a page: status {status:04x}h"))),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "the reply belongs to another message")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpt::samples::{device, drive, volume};
    use kernel::bytes::le32;
    use proptest::prelude::*;

    /// A firmware with two volumes, three drives and a device, which answers from memory.
    fn firmware(message: [u8; MESSAGE_BYTES], data: &mut [u8]) -> io::Result<Vec<u8>> {
        let address = le32(&message, ADDRESS_AT).unwrap();
        let pages = match (message[HEADER_AT + 3], message[6], message[HEADER_AT + 2]) {
            (0x08, 0, 0) => vec![(0x11e, volume(0x11e, 2, 5, &[0, 1])), (0x11f, volume(0x11f, 0, 4, &[2]))],
            (0x0a, 0, 0) => (0..3).map(|number| (u32::from(number), drive(number, 0x20, 7))).collect(),
            (0x0f, 0x12, 0) => vec![(DEVICE | 0x20, device(3))],
            other => panic!("{other:x?}"),
        };
        let found = match address {
            0xff | 0xffff => pages.first(),
            address if address >= VOLUME => pages.iter().find(|(key, _)| *key == address),
            address => pages.iter().find(|(key, _)| *key > address),
        };
        let mut reply = vec![0; 128];
        reply[3] = MPT_CONFIGURATION;
        let Some((_, page)) = found else {
            reply[STATUS_AT] = 0x22;
            return Ok(reply);
        };
        let words = u8::try_from(page.len() / 4).unwrap();
        (reply[4], reply[HEADER_AT + 1]) = (words, words);
        match message[0] {
            MPT_HEADER => assert!(data.is_empty()),
            _ => {
                assert_eq!(message[HEADER_AT + 1], words);
                data.copy_from_slice(page);
            }
        }
        Ok(reply)
    }

    #[test]
    fn all_pages_are_found_one_after_the_other() {
        let found = |ask| pages(&mut firmware, ask).unwrap();
        assert_eq!(found(Mpt::Volumes), [volume(0x11e, 2, 5, &[0, 1]), volume(0x11f, 0, 4, &[2])].concat());
        assert_eq!(found(Mpt::Drives), [0, 1, 2].map(|number| drive(number, 0x20, 7)).concat());
        assert_eq!(found(Mpt::Device(0x20)), device(3));
        assert_eq!(pages(&mut firmware, Mpt::Device(0x21)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_firmware_without_volumes_has_none_and_one_that_lies_ends() {
        let refusing = |status: u8| {
            move |_: [u8; MESSAGE_BYTES], _: &mut [u8]| {
                let mut reply = vec![0; 24];
                (reply[3], reply[STATUS_AT], reply[STATUS_AT + 1]) = (MPT_CONFIGURATION, status, 0x80);
                Ok(reply)
            }
        };
        assert_eq!(pages(&mut refusing(0x21), Mpt::Volumes).unwrap().len(), 0);
        assert_eq!(pages(&mut refusing(0x02), Mpt::Volumes).unwrap_err().kind(), io::ErrorKind::Other);
        // No length, no reply, the reply to something else.
        let errors = [refusing(0)([0; 28], &mut []).unwrap(), Vec::new(), vec![0; 128]].map(|reply| {
            let mut exchange = move |_: [u8; MESSAGE_BYTES], _: &mut [u8]| Ok(reply.clone());
            pages(&mut exchange, Mpt::Drives).unwrap_err().kind()
        });
        assert_eq!(errors, [io::ErrorKind::InvalidData; 3]);
        // The same volume for ever, and a page that is longer than any.
        let mut asked = 0;
        let mut cycle = |message: [u8; MESSAGE_BYTES], data: &mut [u8]| {
            asked += 1;
            let mut first = message;
            first[ADDRESS_AT..].copy_from_slice(&0xffff_u32.to_le_bytes());
            firmware(first, data)
        };
        assert_eq!(pages(&mut cycle, Mpt::Volumes).unwrap(), volume(0x11e, 2, 5, &[0, 1]));
        assert_eq!(asked, 4);
        let mut long = |_: [u8; MESSAGE_BYTES], _: &mut [u8]| {
            let mut reply = vec![0xff; 128];
            (reply[3], reply[STATUS_AT], reply[STATUS_AT + 1]) = (MPT_CONFIGURATION, 0, 0);
            Ok(reply)
        };
        assert_eq!(pages(&mut long, Mpt::Device(1)).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn noise_ends(noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..9)) {
            for ask in [Mpt::Volumes, Mpt::Drives, Mpt::Temperatures, Mpt::VolumeName(1), Mpt::Device(2)] {
                let mut replies = noise.iter().cycle();
                let mut exchange = |_: [u8; MESSAGE_BYTES], data: &mut [u8]| {
                    let mut reply = replies.next().cloned().unwrap_or_default();
                    data.iter_mut().zip(&reply).for_each(|(to, from)| *to = *from);
                    if let Some(function) = reply.get_mut(3) {
                        *function = MPT_CONFIGURATION;
                    }
                    if let Some(status) = reply.get_mut(STATUS_AT..STATUS_AT + 2) {
                        status.fill(0);
                    }
                    Ok(reply)
                };
                let _ = pages(&mut exchange, ask);
            }
        }
    }
}
