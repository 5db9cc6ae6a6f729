//! What takes many requests to a management controller: its sensor records, the data of a part, its event log. Pure but for
//! what sends a request.
//!
//! The answer is what was read, even if the rest could not be; an error if there is nothing.

use std::{
    collections::BTreeSet,
    io,
    time::{Duration, Instant},
};

/// For one of these; a controller with hundreds of records takes seconds.
const LIMIT: Duration = Duration::from_secs(15);
/// The largest machines have some hundreds.
const MAX_RECORDS: usize = 2048;
/// Real parts have at most 8 KiB.
const MAX_PART_BYTES: usize = 16 << 10;
/// Numbers of the log that are tried for each entry wanted, since some were deleted.
const TRIES: usize = 2;

// Storage commands (IPMI 2.0, 33, 34, 31).
const STORAGE: u8 = 0x0a;
const PART_INFO: u8 = 0x10;
const READ_PART: u8 = 0x11;
const RESERVE_RECORDS: u8 = 0x22;
const GET_RECORD: u8 = 0x23;
const GET_EVENT: u8 = 0x43;
/// The first record, the last, and no further one.
const FIRST: u16 = 0;
const LAST: u16 = 0xffff;
/// Id, version, type and length of a sensor record.
const RECORD_HEADER: usize = 5;
/// What is asked for: all, and what each controller can give at once.
const ALL: u8 = 0xff;
const RECORD_STEP: usize = 16;
const PART_STEPS: [u8; 4] = [128, 32, 16, 8];
const EVENT_BYTES: usize = 16;
/// Offsets of the areas, from the common header's second byte on; the internal area has no length, the last is a list.
const AREAS: std::ops::RangeInclusive<usize> = 2..=4;
const RECORD_LIST: usize = 5;

/// Sends a request: net function, command, data. The reply begins with its completion code.
pub(super) type Send<'a> = &'a mut dyn FnMut(u8, u8, &[u8]) -> io::Result<Vec<u8>>;

struct Storage<'a> {
    send: Send<'a>,
    begun: Instant,
}

impl<'a> Storage<'a> {
    fn new(send: Send<'a>) -> Self {
        Self { send, begun: Instant::now() }
    }

    /// The reply's data. `Unsupported` if the controller refuses.
    fn request(&mut self, command: u8, data: &[u8]) -> io::Result<Vec<u8>> {
        if self.begun.elapsed() > LIMIT {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the management controller is too slow"));
        }
        let reply = (self.send)(STORAGE, command, data)?;
        match reply.split_first() {
            Some((0, data)) => Ok(data.to_vec()),
            Some((code, _)) => Err(refused(&format!("completion code {code:02x}h"))),
            None => Err(refused("an empty reply")),
        }
    }

    /// A sensor record and the id of the next, in one request where the controller can.
    fn record(&mut self, id: u16, in_parts: &mut bool) -> io::Result<(u16, Vec<u8>)> {
        if !*in_parts {
            match self.record_part(0, id, 0, ALL) {
                Ok((next, record)) if record_len(&record) == Some(record.len()) => return Ok((next, record)),
                Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
                _ => *in_parts = true,
            }
        }
        let mut attempt = || -> io::Result<(u16, Vec<u8>)> {
            let reservation = self.request(RESERVE_RECORDS, &[])?;
            let reservation = kernel::bytes::le16(&reservation, 0).ok_or_else(|| refused("no reservation"))?;
            let (next, mut record) = self.record_part(reservation, id, 0, 5)?;
            let len = record_len(&record).ok_or_else(|| refused("a record without a header"))?;
            while record.len() < len {
                let step = (len - record.len()).min(RECORD_STEP);
                let at = u8::try_from(record.len()).map_err(io::Error::other)?;
                let (_, part) = self.record_part(reservation, id, at, u8::try_from(step).unwrap_or(1))?;
                if part.is_empty() {
                    return Err(refused("a record that ends early"));
                }
                record.extend(part);
            }
            record.truncate(len);
            Ok((next, record))
        };
        // Another program may have taken the reservation.
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => attempt(),
            done => done,
        }
    }

    fn record_part(&mut self, reservation: u16, id: u16, at: u8, len: u8) -> io::Result<(u16, Vec<u8>)> {
        let ([r0, r1], [i0, i1]) = (reservation.to_le_bytes(), id.to_le_bytes());
        let reply = self.request(GET_RECORD, &[r0, r1, i0, i1, at, len])?;
        let (next, part) = reply.split_first_chunk().ok_or_else(|| refused("a short reply"))?;
        Ok((u16::from_le_bytes(*next), part.to_vec()))
    }

    /// An entry of the log, and the id of the next.
    fn event(&mut self, id: u16) -> io::Result<(u16, [u8; EVENT_BYTES])> {
        let [low, high] = id.to_le_bytes();
        let reply = self.request(GET_EVENT, &[0, 0, low, high, 0, ALL])?;
        let next = kernel::bytes::le16(&reply, 0);
        next.zip(kernel::bytes::array(&reply, 2)).ok_or_else(|| refused("a short reply"))
    }
}

/// All sensor data records (IPMI 2.0, 33.12 and 43), one behind the other.
pub(super) fn sensor_records(send: Send<'_>) -> io::Result<Vec<u8>> {
    let mut storage = Storage::new(send);
    let (mut records, mut seen) = (Vec::new(), BTreeSet::new());
    let (mut id, mut in_parts) = (FIRST, false);
    // A list that leads back into itself ends.
    while id != LAST && seen.insert(id) && seen.len() <= MAX_RECORDS {
        match storage.record(id, &mut in_parts) {
            Ok((next, record)) => {
                records.extend(record);
                id = next;
            }
            Err(error) if records.is_empty() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, records = seen.len(), "the rest of the sensor records is skipped");
                break;
            }
        }
    }
    Ok(records)
}

/// The data of a part (FRU), as far as they are used (IPMI 2.0, 34).
pub(super) fn part(send: Send<'_>, device: u8) -> io::Result<Vec<u8>> {
    let mut storage = Storage::new(send);
    let info = storage.request(PART_INFO, &[device])?;
    let size = kernel::bytes::le16(&info, 0).ok_or_else(|| refused("a short reply"))?;
    // Some are addressed by words of two bytes.
    let unit = if info.get(2).is_some_and(|access| access & 1 == 1) { 2 } else { 1 };
    let size = usize::from(size).min(MAX_PART_BYTES);
    let mut steps = PART_STEPS.into_iter();
    let mut step = steps.next().unwrap_or(8);
    let mut data: Vec<u8> = Vec::new();
    while data.len() < used_len(&data).min(size) {
        let (at, wanted) = (data.len() / unit, (size - data.len()).min(step.into()).div_ceil(unit));
        let [low, high] = u16::try_from(at).unwrap_or(u16::MAX).to_le_bytes();
        match storage.request(READ_PART, &[device, low, high, u8::try_from(wanted).unwrap_or(u8::MAX)]) {
            Ok(reply) if reply.len() > 1 => {
                let read = reply.get(1..).unwrap_or_default();
                data.extend(read.get(..wanted * unit).unwrap_or(read));
                // An odd count of words would never end.
                if !data.len().is_multiple_of(unit) {
                    break;
                }
            }
            // Too many at once, for some.
            Err(error) if error.kind() != io::ErrorKind::Unsupported && data.is_empty() => return Err(error),
            failed => match steps.next() {
                Some(smaller) => step = smaller,
                None if data.is_empty() => return failed,
                None => break,
            },
        }
    }
    Ok(data)
}

/// How much must be read of a part of which these bytes are known (FRU information storage definition 1.0).
fn used_len(data: &[u8]) -> usize {
    let mut end = 8;
    let byte = |at: usize| data.get(at).copied();
    for at in AREAS {
        if let Some(offset @ 1..) = byte(at).map(|units| usize::from(units) * 8) {
            end = end.max(offset + byte(offset + 1).map_or(2, |units| usize::from(units) * 8));
        }
    }
    let mut record = byte(RECORD_LIST).map_or(0, |units| usize::from(units) * 8);
    while record > 0 {
        // Type, end of list, length, two checksums.
        end = end.max(record + 5);
        let (Some(flags), Some(len)) = (byte(record + 1), byte(record + 2)) else { break };
        end = end.max(record + 5 + usize::from(len));
        record = if flags & 0x80 == 0 { record + 5 + usize::from(len) } else { 0 };
    }
    end
}

/// The last entries of the event log, the oldest first (IPMI 2.0, 31.5).
pub(super) fn events(send: Send<'_>, count: u8) -> io::Result<Vec<u8>> {
    let mut storage = Storage::new(send);
    let number = |entry: &[u8; EVENT_BYTES]| u16::from_le_bytes([entry[0], entry[1]]);
    let (second, first) = storage.event(FIRST)?;
    let (_, last) = storage.event(LAST)?;
    // The controller gives numbers in steps: mostly one.
    let step =
        if second == LAST { 1 } else { second.checked_sub(number(&first)).filter(|step| *step > 0).unwrap_or(1) };
    let mut entries = vec![last];
    let mut id = number(&last);
    for _ in 0..usize::from(count) * TRIES {
        let below = id.checked_sub(step).filter(|below| *below >= number(&first));
        let Some(below) = below.filter(|_| entries.len() < count.into()) else { break };
        id = below;
        // Asked for by number 0 it would be the first in any case.
        let found = if id == number(&first) { Ok((second, first)) } else { storage.event(id) };
        match found {
            // Another entry than that which was asked for is none of these.
            Ok((_, entry)) if number(&entry) == id => entries.push(entry),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => {
                tracing::warn!(%error, entries = entries.len(), "older entries of the event log are skipped");
                break;
            }
        }
    }
    entries.reverse();
    Ok(entries.concat())
}

/// Length of the record that the bytes begin with.
fn record_len(record: &[u8]) -> Option<usize> {
    record.get(4).map(|len| RECORD_HEADER + usize::from(*len))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("the management controller refused: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(id: u16, body: usize) -> Vec<u8> {
        let mut record = vec![0x51, 1, u8::try_from(body).unwrap()];
        record.splice(0..0, id.to_le_bytes());
        record.extend((0..body).map(|at| u8::try_from(at).unwrap()));
        record
    }

    /// A repository of these records that gives at most so many bytes at once.
    fn repository(records: &[Vec<u8>], most: usize, asked: &mut usize) -> io::Result<Vec<u8>> {
        let mut reservation = 0;
        sensor_records(&mut |_, command, data| {
            *asked += 1;
            if command == RESERVE_RECORDS {
                reservation += 1;
                return Ok(vec![0, reservation, 0]);
            }
            let &[held, _, i0, i1, at, len] = data else { panic!() };
            let id = u16::from_le_bytes([i0, i1]);
            let place = records.iter().position(|r| r[..2] == id.to_le_bytes()).unwrap_or(0);
            let record = &records[place];
            let wanted = if len == ALL { record.len() } else { len.into() };
            if wanted > most {
                return Ok(vec![0xca]);
            }
            // Another program takes the second reservation.
            if at > 0 && held != reservation || held == 2 {
                return Ok(vec![0xc5]);
            }
            let next = records.get(place + 1).map_or(vec![0xff, 0xff], |next| next[..2].to_vec());
            Ok([&[0], &next[..], &record[usize::from(at)..usize::from(at) + wanted]].concat())
        })
    }

    #[test]
    fn records_whole_or_in_parts() {
        let records = [record(0, 43), record(7, 59), record(3, 16), record(9, 0)];
        for most in [200, 16] {
            let mut asked = 0;
            assert_eq!(repository(&records, most, &mut asked).unwrap(), records.concat(), "{most}");
            assert_eq!(asked == records.len(), most == 200, "{asked}");
        }
        assert_eq!(repository(&records, 4, &mut 0).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn a_list_that_leads_back_ends() {
        let found =
            sensor_records(&mut |_, _, data| Ok([&[0, 1 - data[2], 0][..], &record(data[2].into(), 3)].concat()));
        assert_eq!(found.unwrap(), [record(0, 3), record(1, 3)].concat());
        let lost = sensor_records(&mut |_, _, _| Err(io::ErrorKind::TimedOut.into()));
        assert_eq!(lost.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// A part of 1 KiB that begins so.
    fn read(begin: &[u8], most: usize, words: bool) -> Vec<u8> {
        let mut all = begin.to_vec();
        all.resize(1024, 0xee);
        let unit = if words { 2 } else { 1 };
        part(
            &mut |_, command, data| match (command, data) {
                (PART_INFO, [3]) => Ok(vec![0, 0, 4, words.into()]),
                (READ_PART, &[3, low, high, count]) if usize::from(count) * unit <= most => {
                    let at = usize::from(u16::from_le_bytes([low, high])) * unit;
                    Ok([&[0, count], &all[at..at + usize::from(count) * unit]].concat())
                }
                _ => Ok(vec![0xc9]),
            },
            3,
        )
        .unwrap()
    }

    #[test]
    fn only_what_is_used_of_a_part_is_read() {
        // A board area of 16 bytes, and a list of two records behind it.
        let mut begin = vec![1, 0, 0, 1, 0, 3, 0, 0xfb, 1, 2, 25, 0, 0, 0];
        begin.resize(24, 0);
        begin.extend([[0, 2, 24, 0, 0], [9; 5], [9; 5], [9; 5], [9; 5]].concat());
        begin.resize(24 + 29, 9);
        begin.extend([0xc0, 0x82, 3, 0, 0, 1, 2, 3]);
        assert_eq!(used_len(&begin), begin.len());
        assert_eq!(used_len(&begin[..26]), 24 + 5);
        for (most, words) in [(255, false), (20, false), (8, false), (255, true), (16, true)] {
            let found = read(&begin, most, words);
            assert_eq!(found[..begin.len()], begin, "{most} {words}");
            assert!(found.len() < begin.len() + 128, "{most} {words}");
        }
        assert_eq!((used_len(&[]), used_len(&[1, 0, 0, 0, 0, 0, 0, 0xff])), (8, 8));
    }

    #[test]
    fn the_last_events_in_the_logs_order() {
        let log = |ids: &[u16], count| {
            let ids = ids.to_vec();
            let found = events(
                &mut |_, _, data| {
                    let id = u16::from_le_bytes([data[2], data[3]]);
                    let place = match id {
                        FIRST => Some(0),
                        LAST => ids.len().checked_sub(1),
                        id => ids.iter().position(|other| *other == id),
                    };
                    let Some(place) = place.filter(|place| *place < ids.len()) else { return Ok(vec![0xcb]) };
                    let next = ids.get(place + 1).copied().unwrap_or(LAST).to_le_bytes();
                    Ok([&[0], &next[..], &ids[place].to_le_bytes(), &[2; 14]].concat())
                },
                count,
            );
            found
                .map(|bytes| bytes.chunks(16).map(|entry| u16::from_le_bytes([entry[0], entry[1]])).collect::<Vec<_>>())
        };
        assert_eq!(log(&[1, 2, 3, 4, 5], 3).unwrap(), [3, 4, 5]);
        assert_eq!(log(&[20, 40, 80, 100], 9).unwrap(), [20, 40, 80, 100]);
        assert_eq!(log(&[0, 1, 2], 9).unwrap(), [0, 1, 2]);
        assert_eq!(log(&[7], 9).unwrap(), [7]);
        assert_eq!(log(&[], 9).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    proptest! {
        #[test]
        fn noise_ends(noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..60)) {
            for all in [sensor_records as fn(Send<'_>) -> _, |send| part(send, 0), |send| events(send, 255)] {
                let mut replies = noise.iter().cycle();
                let _ = all(&mut |_, _, _| {
                    let mut reply = replies.next().cloned().unwrap_or_default();
                    reply.insert(0, 0);
                    Ok(reply)
                });
            }
        }
    }
}
