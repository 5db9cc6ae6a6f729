//! A client of the device mapper: what `dmsetup info`, `deps` and `remove --retry` ask the kernel (linux/dm-ioctl.h).

use kernel::{
    DevNumber, bytes,
    mapper::{BUFFER_BYTES, Command, HEADER_BYTES, ask},
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
    thread,
    time::Duration,
};

/// All kernels speak version 4 of the interface, and take any smaller minor number than theirs.
const VERSION: [u32; 3] = [4, 0, 0];
/// `DM_BUFFER_FULL_FLAG`: the answer did not fit.
const BUFFER_FULL: u32 = 1 << 8;
/// `DM_SUSPEND_FLAG`, `DM_SKIP_LOCKFS_FLAG` and `DM_NOFLUSH_FLAG`.
const SUSPEND: u32 = 1 << 1 | 1 << 10 | 1 << 11;
/// Where `struct dm_ioctl` has its fields.
mod at {
    pub(super) const DATA_SIZE: usize = 12;
    pub(super) const DATA_START: usize = 16;
    pub(super) const TARGET_COUNT: usize = 20;
    pub(super) const OPEN_COUNT: usize = 24;
    pub(super) const FLAGS: usize = 28;
    pub(super) const DEV: usize = 40;
    pub(super) const NAME: usize = 48;
    pub(super) const UUID: usize = 176;
}
const NAME_BYTES: usize = 128;
const UUID_BYTES: usize = 129;
/// As `dmsetup remove --retry`: another process may have a device open for a moment.
const REMOVE_TRIES: u32 = 25;
const REMOVE_PAUSE: Duration = Duration::from_millis(200);

/// A mapped device by what does not change while it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub name: String,
    /// Empty without one.
    pub uuid: String,
    pub number: DevNumber,
    /// What it lies on, as sysfs has it.
    pub on: Vec<DevNumber>,
}

/// What the kernel knows of a mapped device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub number: DevNumber,
    pub open_count: u32,
    pub name: String,
    pub uuid: String,
}

/// An answer that makes no sense.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("the device mapper's answer is too short")]
    Short,
    #[error("the device mapper's answer is longer than {BUFFER_BYTES} bytes")]
    Full,
    #[error("the device mapper's answer has unterminated text")]
    Text,
}

fn word(answer: &[u8], at: usize) -> Result<u32, AnswerError> {
    bytes::ne32(answer, at).ok_or(AnswerError::Short)
}

fn long(answer: &[u8], at: usize) -> Result<u64, AnswerError> {
    bytes::ne64(answer, at).ok_or(AnswerError::Short)
}

fn text(answer: &[u8], at: usize, len: usize) -> Result<String, AnswerError> {
    let field = answer.get(at..at.saturating_add(len)).ok_or(AnswerError::Short)?;
    if field.contains(&0) { Ok(bytes::text(field)) } else { Err(AnswerError::Text) }
}

/// Reads the answer to `DM_DEV_STATUS`.
pub(crate) fn status(answer: &[u8]) -> Result<Status, AnswerError> {
    Ok(Status {
        number: DevNumber::from_kernel(long(answer, at::DEV)?),
        // Signed in the header, and never negative.
        open_count: word(answer, at::OPEN_COUNT)?,
        name: text(answer, at::NAME, NAME_BYTES)?,
        uuid: text(answer, at::UUID, UUID_BYTES)?,
    })
}

/// Reads the answer to `DM_TABLE_DEPS`: `struct dm_target_deps` where the header says.
pub(crate) fn dependencies(answer: &[u8]) -> Result<Vec<DevNumber>, AnswerError> {
    if word(answer, at::FLAGS)? & BUFFER_FULL != 0 {
        return Err(AnswerError::Full);
    }
    let end = usize::try_from(word(answer, at::DATA_SIZE)?).unwrap_or(usize::MAX).min(answer.len());
    let start = usize::try_from(word(answer, at::DATA_START)?).unwrap_or(usize::MAX);
    let data = answer.get(start..end).ok_or(AnswerError::Short)?;
    // A device without a table has no list.
    if data.is_empty() {
        return Ok(Vec::new());
    }
    let count = usize::try_from(word(data, 0)?).unwrap_or(usize::MAX);
    let list = data.get(8..).ok_or(AnswerError::Short)?;
    if count > list.len() / 8 {
        return Err(AnswerError::Short);
    }
    (0..count).map(|index| long(list, index * 8).map(DevNumber::from_kernel)).collect()
}

/// `struct dm_target_spec` of a target that fails every request, and its empty parameters.
fn error_target(sectors: u64) -> [u8; 48] {
    let mut spec = [0; 48];
    let (_, rest) = spec.split_at_mut(8);
    let (length, rest) = rest.split_at_mut(8);
    length.copy_from_slice(&sectors.to_ne_bytes());
    // After status and the offset of the next one, which does not exist.
    let kind = b"error";
    rest.iter_mut().skip(8).zip(kind).for_each(|(to, byte)| *to = *byte);
    spec
}

/// Puts bytes into a question.
fn put(buffer: &mut [u8], at: usize, bytes: &[u8]) -> io::Result<()> {
    let place = at.checked_add(bytes.len()).and_then(|end| buffer.get_mut(at..end));
    place.map(|to| to.copy_from_slice(bytes)).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A question about the device with this UUID, or without one with this name.
fn question(device: Option<&Mapped>) -> Result<Box<[u8; BUFFER_BYTES]>, io::Error> {
    let mut buffer = Box::new([0; BUFFER_BYTES]);
    let mut set = |at: usize, bytes: &[u8]| put(&mut *buffer, at, bytes);
    for (index, part) in VERSION.into_iter().enumerate() {
        set(index * 4, &part.to_ne_bytes())?;
    }
    let size = |bytes| u32::try_from(bytes).map_err(io::Error::other);
    set(at::DATA_SIZE, &size(BUFFER_BYTES)?.to_ne_bytes())?;
    set(at::DATA_START, &size(HEADER_BYTES)?.to_ne_bytes())?;
    if let Some(device) = device {
        let (at, key, room) = match device.uuid.as_str() {
            "" => (at::NAME, device.name.as_bytes(), NAME_BYTES),
            uuid => (at::UUID, uuid.as_bytes(), UUID_BYTES),
        };
        if key.is_empty() || key.len() >= room {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set(at, key)?;
    }
    Ok(buffer)
}

/// The control node, opened.
#[derive(Debug)]
pub(crate) struct Mapper {
    control: File,
}

impl Mapper {
    /// Opens `/dev/mapper/control` below `root`; creates it if missing, as libdevmapper does.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let path = root.join("dev/mapper/control");
        let open = || OpenOptions::new().read(true).write(true).open(&path);
        let control = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_node(&path, &fs::read_to_string(root.join("proc/misc"))?)?;
                open()?
            }
            result => result?,
        };
        ask(&control, Command::Version, &mut *question(None)?)?;
        Ok(Self { control })
    }

    pub(super) fn status(&self, device: &Mapped) -> io::Result<Status> {
        let mut buffer = question(Some(device))?;
        ask(&self.control, Command::Status, &mut buffer)?;
        status(&*buffer).map_err(io::Error::other)
    }

    /// Removes a device that is not open, after a last check that it is the intended one.
    pub(crate) fn remove(&self, device: &Mapped) -> io::Result<()> {
        let mut tries = REMOVE_TRIES;
        loop {
            let result = self.check(device).and_then(|()| {
                let mut buffer = question(Some(device))?;
                ask(&self.control, Command::Remove, &mut buffer)
            });
            match result {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries > 0 => tries -= 1,
                // Another process was faster.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(()),
                result => return result,
            }
            thread::sleep(REMOVE_PAUSE);
        }
    }

    /// Makes all reads and writes of a device fail from now on, without a last write to what it lies on. `Ok(false)` for a
    /// device whose kind can't be changed.
    pub(super) fn cut(&self, device: &Mapped, sectors: u64) -> io::Result<bool> {
        self.check(device)?;
        let mut load = question(Some(device))?;
        put(&mut *load, at::TARGET_COUNT, &1u32.to_ne_bytes())?;
        put(&mut *load, HEADER_BYTES, &error_target(sectors))?;
        match ask(&self.control, Command::Load, &mut load) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(false),
            result => result?,
        }
        let mut suspend = question(Some(device))?;
        put(&mut *suspend, at::FLAGS, &SUSPEND.to_ne_bytes())?;
        ask(&self.control, Command::Suspend, &mut suspend)?;
        // Without the flag it is resumed, with the new table.
        ask(&self.control, Command::Suspend, &mut *question(Some(device))?)?;
        Ok(true)
    }

    fn check(&self, device: &Mapped) -> io::Result<()> {
        let now = self.status(device)?;
        let mut buffer = question(Some(device))?;
        ask(&self.control, Command::Dependencies, &mut buffer)?;
        let on = dependencies(&*buffer).map_err(io::Error::other)?;
        let same = now.number == device.number && now.name == device.name && now.uuid == device.uuid;
        if same && on.iter().all(|number| device.on.contains(number)) {
            return Ok(());
        }
        Err(io::Error::other("the device changed since it was checked"))
    }
}

fn make_node(path: &Path, misc: &str) -> io::Result<()> {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    let minor = mapper_minor(misc)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the kernel has no device mapper (/proc/misc)"))?;
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    }
    // 10 is the major number of miscellaneous devices.
    Ok(mknod(path, SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, makedev(10, minor))?)
}

/// By a line such as `236 device-mapper`.
fn mapper_minor(misc: &str) -> Option<u64> {
    misc.lines().find_map(|line| line.trim().strip_suffix(" device-mapper")?.trim().parse().ok())
}

#[cfg(test)]
#[path = "mapper_tests.rs"]
mod tests;
