//! System calls by what they are for. The numbers are those of the machine this is built for; what only older machines have (open
//! beside openat, …) stands apart.

use crate::privileges::{Rules, Socket};
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Memory, time, threads, its own signals and capabilities, files by the rules for files, and sockets once they are open.
const EVERY_STEP: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_connect,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpeername,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_prlimit64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendfile,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_socketpair,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_tkill,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
];

/// The same in its older forms, which newer machines have no numbers for.
#[cfg(target_arch = "x86_64")]
const EVERY_STEP_OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const EVERY_STEP_OLDER: &[c_long] = &[];

/// Changes to files, for steps that may write some.
pub(crate) const CHANGE_FILES: &[c_long] = &[
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fdatasync,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Directories, and other files under names that are taken.
pub(crate) const REPLACE_FILES: &[c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_renameat2,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// Its own signals, read from a file.
pub(crate) const SIGNALS_BY_FILE: &[c_long] = &[libc::SYS_signalfd4];

/// Everything that is to be written.
pub(crate) const SYNC: &[c_long] = &[libc::SYS_sync];

/// To restart the machine once this process has ended.
pub(crate) const REBOOT: &[c_long] = &[libc::SYS_reboot, libc::SYS_setsid];

/// Not in every C library's list yet; newer calls have one number everywhere.
const FCHMODAT2: c_long = 452;

/// To end processes, others' too where Landlock does not say which.
pub(crate) const SIGNAL: &[c_long] = &[libc::SYS_kill];

/// To be another user where files are concerned.
pub(crate) const FILE_USER: &[c_long] = &[libc::SYS_setfsgid, libc::SYS_setfsuid];

/// A child by fork, which the C library makes of clone or of this.
#[cfg(target_arch = "x86_64")]
pub(crate) const FORK: &[c_long] = &[libc::SYS_fork];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const FORK: &[c_long] = &[];

/// What no step does, nor any program that one starts: another kernel or parts of it, the clock, swap, other processes' memory,
/// files by handles past all directories.
const NO_STEP: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_process_vm_writev,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    KEXEC_FILE_LOAD,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// As [`FCHMODAT2`], but older than the numbers that all share.
#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: c_long = 320;
#[cfg(not(target_arch = "x86_64"))]
const KEXEC_FILE_LOAD: c_long = 294;

/// What an assistant does for its step: programs, mounts, and for both no step's own.
pub(crate) const DONE_BY_ASSISTANTS: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_umount2,
];

/// What neither an installation nor its programs do themselves: looking into other processes, keys, the host's name.
pub(crate) const NO_INSTALLATION: &[c_long] = &[
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_keyctl,
    libc::SYS_ptrace,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
];

/// What containers and image writers do, and nothing but an installation has.
pub(crate) const OF_INSTALLATIONS: &[c_long] = &[
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_ptrace,
    libc::SYS_request_key,
];

/// `ioctl` requests that the C library and the runtime make: is this a terminal, and how wide; do not wait; close at exec.
const EVERY_STEP_IOCTLS: [u64; 4] = [0x5401, 0x5413, 0x5421, 0x5451];

/// Name spaces of their own, which threads never ask for (`CLONE_NEW…` of clone(2)).
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Of the second argument of `socket`: the type, without the flags beside it.
const SOCKET_TYPE: u64 = 0xf;

/// Filters of what a step may call.
#[derive(Debug)]
pub(super) struct Filters {
    /// Has the C library start threads by clone, whose flags can be looked at, as on kernels without clone3. To be added first: the
    /// other one forbids adding filters.
    pub no_clone3: BpfProgram,
    /// Refuses with EPERM.
    pub main: BpfProgram,
}

/// What a step with these rules may call, and `more`; all else fails with EPERM.
pub(super) fn allowing(rules: &Rules, more: &[&[c_long]], arch: TargetArch) -> Result<Filters, BackendError> {
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in [EVERY_STEP, EVERY_STEP_OLDER].iter().chain(more).copied().flatten() {
        calls.insert(*call, Vec::new());
    }
    let equals = |argument, value| SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value);
    let masked = |argument, mask, value| SeccompCondition::new(argument, Dword, SeccompCmpOp::MaskedEq(mask), value);
    let mut sockets = Vec::new();
    for (domain, kind, protocol) in rules.sockets.iter().chain(&[Socket::Journal]).copied().flat_map(endpoints) {
        let mut conditions = vec![equals(0, number(*domain))?, masked(1, SOCKET_TYPE, number(*kind))?];
        if let Some(protocol) = protocol {
            conditions.push(equals(2, number(*protocol))?);
        }
        sockets.push(SeccompRule::new(conditions)?);
    }
    calls.insert(libc::SYS_socket, sockets);
    let requests = EVERY_STEP_IOCTLS.iter().chain(rules.ioctls);
    let requests: Result<_, BackendError> =
        requests.map(|request| SeccompRule::new(vec![equals(1, *request)?])).collect();
    calls.insert(libc::SYS_ioctl, requests?);
    calls.insert(libc::SYS_clone3, Vec::new());
    calls.insert(libc::SYS_clone, vec![SeccompRule::new(vec![masked(0, number(NAMESPACES), 0)?])?]);
    let refuse = SeccompAction::Errno(number_u32(libc::EPERM));
    let main = SeccompFilter::new(calls, refuse, SeccompAction::Allow, arch)?.try_into()?;
    let none = SeccompAction::Errno(number_u32(libc::ENOSYS));
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let no_clone3 = SeccompFilter::new(clone3, SeccompAction::Allow, none, arch)?.try_into()?;
    Ok(Filters { no_clone3, main })
}

/// All calls but those no step makes, and those of `more`.
pub(super) fn refusing(more: &[&[c_long]], arch: TargetArch) -> Result<BpfProgram, BackendError> {
    let calls = NO_STEP.iter().chain(more.iter().copied().flatten()).map(|call| (*call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(number_u32(libc::EPERM));
    SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Domain, type and, where that matters, protocol.
fn endpoints(socket: Socket) -> &'static [(i32, i32, Option<i32>)] {
    match socket {
        Socket::Journal => &[(libc::AF_UNIX, libc::SOCK_DGRAM, None)],
        Socket::Udp => &[(libc::AF_INET, libc::SOCK_DGRAM, None), (libc::AF_INET6, libc::SOCK_DGRAM, None)],
        Socket::Tcp => &[(libc::AF_INET, libc::SOCK_STREAM, None), (libc::AF_INET6, libc::SOCK_STREAM, None)],
        Socket::Echo => &[
            (libc::AF_INET, libc::SOCK_RAW, Some(libc::IPPROTO_ICMP)),
            (libc::AF_INET6, libc::SOCK_RAW, Some(libc::IPPROTO_ICMPV6)),
        ],
        Socket::Packet => &[(libc::AF_PACKET, libc::SOCK_RAW, None)],
        Socket::Route => &[
            (libc::AF_NETLINK, libc::SOCK_RAW, Some(libc::NETLINK_ROUTE)),
            (libc::AF_NETLINK, libc::SOCK_DGRAM, Some(libc::NETLINK_ROUTE)),
        ],
    }
}

/// A constant of the C library's, none of which is negative.
fn number(constant: libc::c_int) -> u64 {
    number_u32(constant).into()
}

fn number_u32(constant: libc::c_int) -> u32 {
    constant.unsigned_abs()
}
