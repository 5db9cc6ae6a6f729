//! Disks that fail on purpose: a loop device over a file of qemu-storage-daemon, whose block layer records, refuses or delays
//! what is written. Nothing of the kernel's device mapper is needed.

use crate::faults::medium::Random;
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;
use testkit::{disk::Loop, wait};

/// A disk of the test's own; all of it goes when it is dropped.
pub(crate) struct Storage {
    dir: TempDir,
    daemon: Child,
    device: Option<Loop>,
}

impl Storage {
    /// Records every write and flush.
    pub(crate) fn recording(bytes: u64, sector: u32) -> Self {
        let prepare = |dir: &Path| File::create(dir.join("log")).unwrap().set_len(4 << 30).unwrap();
        Self::start(bytes, sector, None, prepare, &|dir| {
            let log = format!("driver=file,node-name=log,filename={}", dir.join("log").display());
            let top = "driver=blklogwrites,node-name=top,file=disk,log=log,log-sector-size=512".to_owned();
            vec!["--blockdev".into(), log, "--blockdev".into(), top]
        })
    }

    /// Refuses writes to the sector of this byte. Holds `content` already.
    pub(crate) fn failing_writes_at(bytes: u64, byte: u64, content: &[u8]) -> Self {
        Self::failing("write", bytes, byte, content)
    }

    /// Refuses reads of the sector of this byte.
    pub(crate) fn failing_reads_at(bytes: u64, byte: u64) -> Self {
        Self::failing("read", bytes, byte, &[])
    }

    fn failing(requests: &str, bytes: u64, byte: u64, content: &[u8]) -> Self {
        let top = format!(
            "driver=blkdebug,node-name=top,image=disk,inject-error.0.event=none,inject-error.0.iotype={requests},\
             inject-error.0.errno=5,inject-error.0.sector={}",
            byte / 512
        );
        Self::start(bytes, 512, Some(content), |_| {}, &|_| vec!["--blockdev".into(), top.clone()])
    }

    /// Takes only so much a second.
    pub(crate) fn slow(bytes: u64, bytes_per_second: u64) -> Self {
        let group = format!("throttle-group,id=slow,limits.bps-write={bytes_per_second}");
        let top = "driver=throttle,node-name=top,throttle-group=slow,file=disk".to_owned();
        Self::start(bytes, 512, None, |_| {}, &|_| {
            vec!["--object".into(), group.clone(), "--blockdev".into(), top.clone()]
        })
    }

    fn start(
        bytes: u64,
        sector: u32,
        content: Option<&[u8]>,
        prepare: impl Fn(&Path),
        layers: &dyn Fn(&Path) -> Vec<String>,
    ) -> Self {
        let dir = tempfile::Builder::new().prefix("landfall-faults-").tempdir().unwrap();
        let (disk, export) = (dir.path().join("disk"), dir.path().join("export"));
        let file = File::create(&disk).unwrap();
        file.set_len(bytes).unwrap();
        if let Some(content) = content {
            file.write_all_at(content, 0).unwrap();
        }
        File::create(&export).unwrap();
        prepare(dir.path());
        let mut command = Command::new("qemu-storage-daemon");
        command.args(["--blockdev", &format!("driver=file,node-name=disk,filename={}", disk.display())]);
        command.args(layers(dir.path()));
        command.args([
            "--export",
            &format!("type=fuse,id=export,node-name=top,writable=on,mountpoint={}", export.display()),
        ]);
        let mut daemon = command.stdin(Stdio::null()).spawn().expect("qemu-storage-daemon");
        let exports = wait::comes(|| {
            assert!(daemon.try_wait().unwrap().is_none(), "qemu-storage-daemon ended");
            fs::metadata(&export).unwrap().len() == bytes
        });
        assert!(exports, "qemu-storage-daemon exports nothing");
        // Not direct: two direct writes of a loop device to one file of such an export get into each other's way.
        let device = Loop::over(&export, &["--partscan", "--sector-size", &sector.to_string()]);
        Self { dir, daemon, device: Some(device) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.device.as_ref().expect("it is switched off").node()
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) {
        let file = fs::OpenOptions::new().write(true).open(self.path()).unwrap();
        file.write_all_at(data, offset).unwrap();
        file.sync_all().unwrap();
    }

    /// What is on the medium by now.
    pub(crate) fn medium(&self) -> Vec<u8> {
        fs::read(self.dir.path().join("disk")).unwrap()
    }

    pub(crate) fn writes_so_far(&self) -> usize {
        Log::read(&self.dir.path().join("log")).len()
    }

    /// Switches it off; what was recorded from entry `from` on, and the medium.
    pub(crate) fn into_log(mut self, from: usize) -> (Log, Vec<u8>) {
        self.stop();
        let mut log = Log::read(&self.dir.path().join("log"));
        log.0.drain(..from);
        (log, self.medium())
    }

    fn stop(&mut self) {
        self.device = None;
        // Once it was waited for, its number is another process's.
        if self.daemon.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        // The daemon ends well only when asked to: then its log is complete.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.daemon.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        if !wait::comes(|| self.daemon.try_wait().is_ok_and(|status| status.is_some())) {
            let _ = self.daemon.kill();
            let _ = self.daemon.wait();
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.stop();
    }
}

enum Entry {
    Write { offset: usize, data: Vec<u8> },
    Flush,
}

/// Writes and flushes in the order in which the disk took them.
pub(crate) struct Log(Vec<Entry>);

impl Log {
    /// The format of the kernel's dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst).
    fn read(path: &Path) -> Self {
        const FLUSH: u64 = 1;
        const DISCARD: u64 = 4;
        let file = File::open(path).unwrap();
        let field = |offset: u64| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, offset).unwrap();
            u64::from_le_bytes(bytes)
        };
        assert_eq!(field(0), 0x006a_736677736872, "not a log of writes");
        let (count, sector) = (field(16), field(24) & 0xFFFF_FFFF);
        let mut at = sector;
        let mut entries = Vec::new();
        for _ in 0..count {
            let (start, sectors, flags) = (field(at), field(at + 8), field(at + 16));
            at += sector;
            if flags & FLUSH != 0 {
                entries.push(Entry::Flush);
            }
            if sectors == 0 {
                continue;
            }
            assert_eq!(flags & DISCARD, 0, "a discard promises nothing, and must not be used for anything");
            let mut data = vec![0; usize::try_from(sectors * sector).unwrap()];
            file.read_exact_at(&mut data, at).unwrap();
            at += sectors * sector;
            entries.push(Entry::Write { offset: usize::try_from(start * sector).unwrap(), data });
        }
        Self(entries)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The medium after the power went at a random point: of the writes since the last flush a random part is lost, each sector
    /// for itself.
    pub(crate) fn after_power_cut(&self, before: &[u8], random: &mut Random) -> (usize, Vec<u8>) {
        // Half of the cuts among the last writes, where the table comes.
        let last = self.len().min(12);
        let cut = if random.next().is_multiple_of(2) {
            random.below(self.len() + 1)
        } else {
            self.len() - random.below(last + 1)
        };
        let flushed = self.0[..cut].iter().rposition(|entry| matches!(entry, Entry::Flush)).unwrap_or(0);
        let mut medium = before.to_vec();
        for (index, entry) in self.0[..cut].iter().enumerate() {
            let Entry::Write { offset, data } = entry else { continue };
            if index < flushed {
                medium[*offset..offset + data.len()].copy_from_slice(data);
                continue;
            }
            // Whole writes and single sectors get lost.
            let odds = [0, 1, 1, 2][random.below(4)];
            for (at, piece) in (*offset..).step_by(4096).zip(data.chunks(4096)) {
                if odds == 2 || (odds == 1 && random.next().is_multiple_of(2)) {
                    medium[at..at + piece.len()].copy_from_slice(piece);
                }
            }
        }
        (cut, medium)
    }
}
