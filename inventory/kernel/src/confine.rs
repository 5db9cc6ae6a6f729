//! Limits of a child process: capabilities, memory, system calls. Set between fork and exec, or by the child before its work.
#![allow(unsafe_code)]

use crate::filter::{Instruction, program, raw};
use nix::sys::{
    prctl,
    resource::{Resource, getrlimit, setrlimit},
    signal::Signal,
};
use std::{
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::{CommandExt, parent_id},
    },
    process::Command,
};

/// `CAP_LAST_CAP` can't grow beyond this: capability sets have 64 bits (linux/capability.h).
const CAPABILITY_BITS: u8 = 64;
/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;
/// More than any step opens: a leak fails in the step, not on the host.
const MAX_OPEN_FILES: u64 = 16_384;

/// What a child may do and use.
#[derive(Debug)]
pub struct Confinement {
    /// Whether it gets SIGTERM when the thread that started it ends.
    pub dies_with_us: bool,
    /// Bit n stands for capability n.
    pub capabilities: u64,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// For proc(5).
    pub oom_score_adj: u16,
    /// A file that stays open in it.
    pub file: Option<OwnedFd>,
}

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`; two make the 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives the child its own session, and so its own process group: signals meant for our terminal or group don't reach it,
/// and one kill reaches all it starts. `confinement` applies to it and all it starts, permanently.
///
/// Starting it fails if that is not possible: a step must not run with more power than it should have.
pub fn confine(command: &mut Command, confinement: Confinement) {
    let us = std::process::id();
    let score = confinement.oom_score_adj.to_string();
    let prepare = move || {
        nix::unistd::setsid()?;
        if confinement.dies_with_us {
            prctl::set_pdeathsig(Signal::SIGTERM)?;
            // We may have ended before that took effect.
            if parent_id() != us {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        if let Some(file) = &confinement.file {
            keep_open(file.as_raw_fd())?;
        }
        write_file(c"/proc/self/oom_score_adj", score.as_bytes())?;
        limit(Resource::RLIMIT_CORE, 0)?;
        limit(Resource::RLIMIT_NOFILE, MAX_OPEN_FILES)?;
        limit(Resource::RLIMIT_DATA, confinement.memory_bytes)?;
        drop_capabilities(confinement.capabilities)?;
        Ok(prctl::set_no_new_privs()?)
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called: all of these are plain system calls on
    // what was prepared before, and neither they nor making an error from a number allocates.
    unsafe { command.pre_exec(prepare) };
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn keep_open(file: i32) -> io::Result<()> {
    // SAFETY: changes a flag of a descriptor that we hold.
    checked(unsafe { libc::fcntl(file, libc::F_SETFD, 0) })
}

fn write_file(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the path ends with a zero, the buffer has the length given, and the descriptor is ours alone.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        checked(file)?;
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let result = if written == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
        libc::close(file);
        result
    }
}

/// Lowers a limit to `most`; a lower one stays.
fn limit(what: Resource, most: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(what)?;
    let most = hard.min(most);
    Ok(setrlimit(what, most, most)?)
}

/// Leaves the thread, and whatever it executes, at most the capabilities whose bits are set.
///
/// Root gets all of the bounding set when it executes a program, so that is where they must be removed. Without
/// CAP_SETPCAP that set can't be changed, and must not exceed what is retained.
fn drop_capabilities(allowed: u64) -> io::Result<()> {
    for number in 0..CAPABILITY_BITS {
        if allowed >> number & 1 == 1 {
            continue;
        }
        // SAFETY: both only read numbers.
        let (held, dropped) = unsafe {
            let number = libc::c_ulong::from(number);
            (libc::prctl(libc::PR_CAPBSET_READ, number, 0, 0, 0), libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0))
        };
        // -1 stands for a number that this kernel doesn't know.
        if held == 1 && dropped != 0 && is_root() {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: only reads numbers. Kernels before 4.3 have no ambient set.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut data = [CapabilityData::default(); 2];
    // SAFETY: header and data have the shape that version 3 of the interface says.
    unsafe {
        if libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) == -1 {
            return Err(io::Error::last_os_error());
        }
        for (data, shift) in data.iter_mut().zip([0, 32]) {
            // The low or the high half.
            let allowed = u32::try_from(allowed >> shift & u64::from(u32::MAX)).unwrap_or_default();
            data.permitted &= allowed;
            data.effective = data.permitted;
            data.inheritable = 0;
        }
        if libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Landlock's version (landlock_create_ruleset(2)); 0 where the kernel has none, or has it disabled.
pub fn landlock_version() -> i64 {
    const VERSION: libc::c_uint = 1;
    let (none, empty): (*const libc::c_void, libc::size_t) = (std::ptr::null(), 0);
    // SAFETY: with this flag the call only gives a number.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, empty, VERSION) }.max(0)
}

/// Whether the kernel filters system calls, with errors as an outcome.
pub fn has_seccomp() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: only reads the number that it is given.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}

/// Filters the system calls of this thread, and of all it starts, for good. `logged` has the kernel log those it refuses.
pub fn filter_calls(filter: &[Instruction], logged: bool) -> io::Result<()> {
    prctl::set_no_new_privs()?;
    let mut filter = raw(filter);
    let program = program(&mut filter)?;
    let flags = if logged { libc::SECCOMP_FILTER_FLAG_LOG } else { 0 };
    // SAFETY: the program has the shape that the kernel wants, outlives the call, and is copied by it.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::process::ExitStatusExt, process::Child, thread};

    fn confinement(dies_with_us: bool) -> Confinement {
        Confinement { dies_with_us, capabilities: 0, memory_bytes: 64 << 20, oom_score_adj: 321, file: None }
    }

    /// Starts a sleeper in a thread that ends at once, as the agent would.
    fn orphan(dies_with_us: bool) -> Child {
        let start = move || {
            let mut command = Command::new("sleep");
            confine(command.arg("1000"), confinement(dies_with_us));
            command.spawn().unwrap()
        };
        thread::spawn(start).join().unwrap()
    }

    #[test]
    fn a_step_ends_with_who_started_it_and_an_installation_does_not() {
        assert_eq!(orphan(true).wait().unwrap().signal(), Some(libc::SIGTERM));
        let mut installation = orphan(false);
        assert!(installation.try_wait().unwrap().is_none());
        installation.kill().unwrap();
        assert_eq!(installation.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn limits_hold_for_the_child_alone() {
        let before = getrlimit(Resource::RLIMIT_DATA).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "ulimit -c; ulimit -n; ulimit -d; cat /proc/self/oom_score_adj"]);
        confine(&mut command, confinement(true));
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\n16384\n65536\n321\n");
        assert_eq!(getrlimit(Resource::RLIMIT_DATA).unwrap(), before);
    }
}
