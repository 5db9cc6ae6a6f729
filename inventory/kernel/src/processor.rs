//! On which processors a thread runs, how it gives way to others, and how wide its arithmetic is.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use crate::vectors::wide::{Bits256, Bits512};
use crate::vectors::{Work, base};
use nix::{
    errno::Errno,
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use std::io;

/// The CPUs that this thread may run on, in order.
pub fn allowed() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    let is_allowed = |cpu: &usize| set.is_set(*cpu).unwrap_or(false);
    Ok((0..CpuSet::count()).filter(is_allowed).filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// From now on the calling thread runs on these CPUs only.
pub fn pin(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(usize::try_from(*cpu).unwrap_or(usize::MAX))?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(Into::into)
}

/// From now on the calling thread gives way to others: 19 to all, 0 to none (setpriority(2)).
pub fn nice(level: i32) -> io::Result<()> {
    // SAFETY: takes integers. Of Linux' threads each has its own.
    Errno::result(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, level) }).map(drop).map_err(Into::into)
}

/// How many bits are computed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// What every processor of the architecture has.
    Base,
    /// AVX2 with fused multiplication and addition.
    Bits256,
    /// AVX-512.
    Bits512,
}

impl Width {
    /// Those of this processor, the widest last.
    pub fn all() -> Vec<Self> {
        [Self::Base, Self::Bits256, Self::Bits512].into_iter().filter(|width| width.is_there()).collect()
    }

    /// The widest of this processor.
    pub fn widest() -> Self {
        [Self::Bits512, Self::Bits256].into_iter().find(|width| width.is_there()).unwrap_or(Self::Base)
    }

    #[cfg(target_arch = "x86_64")]
    fn is_there(self) -> bool {
        match self {
            Self::Base => true,
            Self::Bits256 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            Self::Bits512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("fma")
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_there(self) -> bool {
        self == Self::Base
    }

    /// Runs code that the compiler vectorises for this width; for the base where the processor does not have it.
    #[inline]
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        #[cfg(target_arch = "x86_64")]
        match self {
            // SAFETY: the processor was just found to have the features.
            Self::Bits256 if self.is_there() => return unsafe { with_256_bits(work) },
            // SAFETY: the same.
            Self::Bits512 if self.is_there() => return unsafe { with_512_bits(work) },
            _ => {}
        }
        work()
    }

    /// Works on vectors of this width; of the base where the processor does not have it.
    #[inline]
    pub fn run_on_vectors<W: Work>(self, work: W) -> W::Output {
        #[cfg(target_arch = "x86_64")]
        match self {
            // SAFETY: the processor was just found to have the features.
            Self::Bits256 if self.is_there() => {
                return unsafe { with_256_bits(|| work.run::<_, 8, 16>(Bits256::new())) };
            }
            // SAFETY: the same.
            Self::Bits512 if self.is_there() => {
                return unsafe { with_512_bits(|| work.run::<_, 4, 8>(Bits512::new())) };
            }
            _ => {}
        }
        // SAFETY: every processor of the architecture has them.
        let vectors = unsafe { base::Base::new() };
        #[cfg(target_arch = "aarch64")]
        return work.run::<_, 16, 32>(vectors);
        #[cfg(not(target_arch = "aarch64"))]
        work.run::<_, 64, 64>(vectors)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_256_bits<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
fn with_512_bits<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_was_pinned() {
        std::thread::spawn(|| {
            let all = allowed().unwrap();
            let last = *all.last().unwrap();
            pin(&[last]).unwrap();
            assert_eq!(allowed().unwrap(), [last]);
            pin(&all).unwrap();
            nice(19).unwrap();
            assert!(pin(&[]).is_err() && pin(&[u32::MAX]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn every_width_computes_the_same() {
        let work = |width: Width| width.run(|| (0..1000_u32).map(|n| n.wrapping_mul(n) ^ 5).fold(0, u32::wrapping_add));
        assert_eq!(Width::all().first(), Some(&Width::Base));
        assert!(Width::all().into_iter().all(|width| work(width) == work(Width::Base)));
        assert_eq!(work(Width::Bits512), work(Width::widest()));
    }
}
