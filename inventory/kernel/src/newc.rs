//! Writing of the "newc" cpio format, which the kernel unpacks its initramfs from (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! Members have no owner and no time, so the same content gives the same bytes.

/// Type bits of a regular file.
pub const REGULAR: u32 = 0o100_000;
/// Type bits of a directory.
pub const DIRECTORY: u32 = 0o040_000;
/// Type bits of a symbolic link.
pub const SYMLINK: u32 = 0o120_000;
/// The bits of a mode that give the type.
pub const TYPE_MASK: u32 = 0o170_000;
/// Length of a header before the name.
pub const HEADER_BYTES: usize = 110;
/// Name of the member that ends an archive.
pub const TRAILER: &str = "TRAILER!!!";

/// A member that doesn't fit the format's 32-bit sizes.
#[derive(Debug, thiserror::Error)]
#[error("'{name}' ({len_bytes} bytes) does not fit a cpio archive, whose members end at 4 GiB")]
pub struct MemberTooLarge {
    pub name: String,
    /// Length of its content.
    pub len_bytes: u64,
}

/// Appends a member: `mode` with its type bits, `inode` distinct for each member of an archive.
pub fn append(out: &mut Vec<u8>, inode: u32, mode: u32, name: &str, data: &[u8]) -> Result<(), MemberTooLarge> {
    let too_large =
        || MemberTooLarge { name: name.to_owned(), len_bytes: u64::try_from(data.len()).unwrap_or(u64::MAX) };
    let data_len = u32::try_from(data.len()).map_err(|_| too_large())?;
    let name_len = u32::try_from(name.len()).ok().and_then(|len| len.checked_add(1)).ok_or_else(too_large)?;
    let links = if mode & TYPE_MASK == DIRECTORY { 2 } else { 1 };
    // magic; inode, mode, user, group, links, time, length; device of the member, device it names; name length, unused checksum
    let fields = [inode, mode, 0, 0, links, 0, data_len, 0, 0, 0, 0, name_len, 0];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    pad(out);
    out.extend_from_slice(data);
    pad(out);
    Ok(())
}

/// Ends the archive.
pub fn finish(out: &mut Vec<u8>) {
    // The name is short and there is no content, so this can't be too large.
    let _ = append(out, 0, 0, TRAILER, &[]);
}

/// Fills up to a multiple of four bytes; `out` must start at a member.
pub fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_laid_out_as_the_kernel_documents_it() {
        let mut out = Vec::new();
        append(&mut out, 1, REGULAR | 0o644, "config.ign", b"{}").unwrap();
        finish(&mut out);
        let text = String::from_utf8(out).unwrap();
        let header = "070701 00000001 000081a4 00000000 00000000 00000001 00000000 00000002 00000000 00000000 00000000 00000000 0000000b 00000000";
        assert_eq!(text[..HEADER_BYTES], header.replace(' ', ""));
        assert_eq!(&text[HEADER_BYTES..HEADER_BYTES + 18], "config.ign\0\0\0\0{}\0\0"[..18].to_owned());
        assert_eq!(text.len() % 4, 0);
        assert!(text.contains("0000000b00000000TRAILER!!!\0"));
    }

    #[test]
    fn a_directory_has_two_links() {
        let mut out = Vec::new();
        append(&mut out, 7, DIRECTORY | 0o755, "etc", &[]).unwrap();
        assert_eq!(&out[6 + 8 * 4..6 + 8 * 5], b"00000002");
    }
}
