//! What a processor says of itself by the instruction CPUID.
#![allow(unsafe_code)]

use std::io;

/// EAX, EBX, ECX and EDX of a leaf, little endian; `Unsupported` if the processor has no such leaf.
pub fn leaf(leaf: u32, subleaf: u32) -> io::Result<Vec<u8>> {
    registers(leaf, subleaf)
        .map(|registers| registers.map(u32::to_le_bytes).concat())
        .ok_or_else(|| io::ErrorKind::Unsupported.into())
}

#[cfg(target_arch = "x86_64")]
// Compilers before 1.94 take the instruction for unsafe.
#[allow(unused_unsafe)]
fn registers(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // SAFETY: all processors of this architecture have the instruction, which only writes the registers it returns.
    let (last, found) = unsafe { (__cpuid(leaf & 0xc000_0000).eax, __cpuid_count(leaf, subleaf)) };
    // Beyond the last leaf of its range, some processors answer with another leaf.
    (leaf <= last).then_some([found.eax, found.ebx, found.ecx, found.edx])
}

#[cfg(not(target_arch = "x86_64"))]
fn registers(_: u32, _: u32) -> Option<[u32; 4]> {
    None
}
