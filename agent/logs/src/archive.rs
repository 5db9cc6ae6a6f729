//! The archive: tar in gzip, written as it comes.

use super::item::{Counting, Item};
use flate2::{Compression, write::GzEncoder};
use std::{
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

const BLOCK: u64 = 512;

/// Writes `items` as `directory/NAME`. Gives the packed bytes that each came to.
pub(crate) fn write(directory: &str, items: &[Item], out: impl Write) -> io::Result<Vec<u64>> {
    let counting = Counting { out, count: 0, limit: u64::MAX };
    let mut gzip = GzEncoder::new(counting, Compression::default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let entry = |path: &str, kind: tar::EntryType, mode: u32, len: u64| {
        let mut header = tar::Header::new_ustar();
        header.set_path(path)?;
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(now);
        header.set_size(len);
        header.set_cksum();
        io::Result::Ok(header)
    };
    gzip.write_all(entry(&format!("{directory}/"), tar::EntryType::Directory, 0o755, 0)?.as_bytes())?;
    let mut packed = Vec::with_capacity(items.len());
    for item in items {
        let before = gzip.get_ref().count;
        let len = item.sent();
        gzip.write_all(entry(&format!("{directory}/{}", item.name), tar::EntryType::Regular, 0o644, len)?.as_bytes())?;
        item.write(&mut gzip)?;
        pad(&mut gzip, len)?;
        packed.push(gzip.get_ref().count - before);
    }
    // Two empty blocks are the end.
    pad(&mut gzip, 0)?;
    gzip.write_all(&[0; 1024])?;
    let before = gzip.get_ref().count;
    let mut counting = gzip.finish()?;
    counting.flush()?;
    // What the packer held back belongs to the last.
    if let Some(last) = packed.last_mut() {
        *last += counting.count - before;
    }
    Ok(packed)
}

fn pad(out: &mut impl Write, len: u64) -> io::Result<()> {
    let missing = len.next_multiple_of(BLOCK) - len;
    out.write_all([0; 512].get(..usize::try_from(missing).unwrap_or(0)).unwrap_or_default())
}

/// Cuts the largest until the archive is no larger than `max` bytes. Of logs the oldest part goes; what is of no use in parts
/// goes whole. Gives a line for each cut.
pub(crate) fn fit(directory: &str, items: &mut Vec<Item>, max: u64) -> io::Result<Vec<String>> {
    // Packing is not proportional, so each round leaves a little more room than the last one lacked.
    const ROUNDS: usize = 64;
    let mut cuts = Vec::new();
    for _ in 0..ROUNDS {
        let packed = write(directory, items, io::sink())?;
        let total: u64 = packed.iter().sum::<u64>().saturating_add(BLOCK);
        let Some(excess) = total.checked_sub(max).filter(|excess| *excess > 0) else { return Ok(cuts) };
        let largest = packed.iter().enumerate().max_by_key(|(_, packed)| **packed);
        let Some((index, &packed)) = largest else { return Ok(cuts) };
        let Some(item) = items.get_mut(index) else { return Ok(cuts) };
        let retained_packed = packed.saturating_sub(excess);
        let before = item.sent();
        let retained = u128::from(before) * u128::from(retained_packed) / u128::from(packed.max(1)) * 9 / 10;
        let retained = u64::try_from(retained).unwrap_or(0);
        if item.is_divisible() && retained > 0 {
            item.skip = item.len - retained;
            cuts.push(format!(
                "{}: left out the first {} of {} bytes: an archive may have {max} bytes",
                item.name, item.skip, item.len
            ));
        } else {
            let line = format!("{} was left out ({before} bytes): an archive may have {max} bytes", item.name);
            cuts.push(line);
            items.remove(index);
        }
    }
    Err(io::Error::other(format!("the gathered logs do not fit into {max} bytes")))
}
