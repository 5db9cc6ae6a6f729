//! System calls by what they are for. The numbers are those of the machine this is built for; what only older machines have (open
//! beside openat, …) stands apart.

use libc::c_long;

/// Memory, time, threads, its own signals and capabilities, files by the rules for files, and sockets once they are open.
pub(super) const EVERY_STEP: &[c_long] = &[
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
pub(super) const EVERY_STEP_OLDER: &[c_long] = &[
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
pub(super) const EVERY_STEP_OLDER: &[c_long] = &[];

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

/// To do something once this process has ended.
pub(crate) const DETACH: &[c_long] = &[libc::SYS_setsid];

/// To accept connections.
pub(crate) const LISTEN: &[c_long] = &[libc::SYS_accept4, libc::SYS_listen];

/// To load a machine: threads that are pinned to processors and go last, memory of one node that stays in place.
pub(crate) const LOAD: &[c_long] = &[
    libc::SYS_getpriority,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_sched_setaffinity,
    libc::SYS_set_mempolicy,
    libc::SYS_setpriority,
];

/// Several requests to a disk at once.
pub(crate) const IO_URING: &[c_long] =
    &[libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_io_uring_setup];

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

/// What neither a step nor its programs do: another kernel or parts of it, the clock, swap, other processes' memory,
/// files by handles past all directories.
pub(super) const NO_STEP: &[c_long] = &[
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
