//! The memory of this program's own code.
#![allow(unsafe_code)]

/// Drops the pages of this program's code from memory; the kernel reads those that are used again from the file. Starting needs many
/// pages that polling never does.
pub fn release_code() {
    // SAFETY: the callback is of the type that the function calls, and gets no data.
    unsafe { libc::dl_iterate_phdr(Some(release_segments), std::ptr::null_mut()) };
}

/// For the first object, which is the program itself; then stops.
unsafe extern "C" fn release_segments(info: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the C library gives a valid record, whose headers are those of a loaded object.
    let (base, headers) = unsafe {
        let info = &*info;
        (info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
    };
    let Ok(Some(page_bytes)) = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE) else { return 1 };
    let Ok(page_bytes) = u64::try_from(page_bytes) else { return 1 };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0) {
        let start = base + header.p_vaddr;
        // Whole pages alone: the one at an end may be shared with what is written to.
        let first = start.next_multiple_of(page_bytes);
        let end = (start + header.p_memsz) / page_bytes * page_bytes;
        let (Ok(address), Ok(len)) = (usize::try_from(first), usize::try_from(end.saturating_sub(first))) else {
            continue;
        };
        // SAFETY: a private mapping of a file that was never written to, since it never could be: its pages come back from the
        // file with what they had.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(address), len, libc::MADV_DONTNEED) };
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comes_back_when_it_is_used() {
        let mapped_kib = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap().to_owned();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let before = mapped_kib();
        release_code();
        let after = mapped_kib();
        assert!(after < before, "{before} KiB before, {after} KiB after");
    }
}
