//! Writing of archives, in the layout of coreos-installer: inodes counted from 0, one link each, no owner, no time.

use super::{Archive, ArchiveError, Member, parents};
use kernel::newc::{self, MemberTooLarge};
use std::collections::BTreeSet;

/// The cpio archive: sorted by name, and before each member the directories above it that were not there yet. With it, where
/// members end that had to be filled up to four bytes: after each of them the archive's compression starts anew there.
pub(super) fn cpio(archive: &Archive) -> Result<(Vec<u8>, Vec<usize>), ArchiveError> {
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    let mut inodes = 0..;
    let mut seen = BTreeSet::new();
    for (name, member) in &archive.members {
        for directory in parents(name).filter(|name| seen.insert(*name)) {
            let mode = match archive.members.get(directory) {
                Some(Member::Directory { mode }) => *mode,
                _ => 0o755,
            };
            append(&mut out, inodes.next().unwrap_or_default(), newc::DIRECTORY | mode, directory, &[])?;
        }
        let (mode, data): (u32, &[u8]) = match member {
            Member::File { mode, data } => (newc::REGULAR | mode, data),
            Member::Symlink { target } => (newc::SYMLINK | 0o777, target.as_bytes()),
            Member::Directory { .. } if !seen.insert(name) => continue,
            Member::Directory { mode } => (newc::DIRECTORY | mode, &[]),
        };
        append(&mut out, inodes.next().unwrap_or_default(), mode, name, data)?;
        if !data.len().is_multiple_of(4) {
            ends.push(out.len());
        }
    }
    append(&mut out, 0, 0, newc::TRAILER, &[])?;
    Ok((out, ends))
}

fn append(out: &mut Vec<u8>, inode: u32, mode: u32, name: &str, data: &[u8]) -> Result<(), MemberTooLarge> {
    let len_bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
    let too_large = || MemberTooLarge { name: name.to_owned(), len_bytes };
    let data_len = u32::try_from(data.len()).map_err(|_| too_large())?;
    let name_len = u32::try_from(name.len()).ok().and_then(|len| len.checked_add(1)).ok_or_else(too_large)?;
    // inode, mode, user, group, links, time, length, device of the member and device it is (two each), name length, checksum
    out.extend_from_slice(b"070701");
    for field in [inode, mode, 0, 0, 1, 0, data_len, 0, 0, 0, 0, name_len, 0] {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    newc::pad(out);
    out.extend_from_slice(data);
    newc::pad(out);
    Ok(())
}
