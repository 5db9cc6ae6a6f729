//! Classic BPF programs (linux/filter.h), with which the kernel filters packets and system calls.

use std::io;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its operation.
    pub code: u16,
    /// Instructions to skip where its condition holds.
    pub if_true: u8,
    /// Instructions to skip where it does not.
    pub if_false: u8,
    /// Its operand.
    pub operand: u32,
}

pub(crate) fn raw(program: &[Instruction]) -> Vec<libc::sock_filter> {
    let raw = |i: &Instruction| libc::sock_filter { code: i.code, jt: i.if_true, jf: i.if_false, k: i.operand };
    program.iter().map(raw).collect()
}

/// Points to `raw`, which must outlive its use.
pub(crate) fn program(raw: &mut [libc::sock_filter]) -> io::Result<libc::sock_fprog> {
    let len = u16::try_from(raw.len()).map_err(io::Error::other)?;
    Ok(libc::sock_fprog { len, filter: raw.as_mut_ptr() })
}
