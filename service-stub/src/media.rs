//! The served files: live ISOs, OS images, and our own binaries.

use crate::disk_images::{DiskImage, DiskImages, ImageError};
use crate::http::file::{Offer, ReadAt, Slice};
use crate::http::joined::Joined;
use crate::http::range::Validators;
use crate::releases::{OsImage, Target, normal_architecture};
use crate::text::{hex, url_part};
use rootfs_overlay::bake::{self, BakeError, program::Machine};
use rootfs_overlay::{PatchedImage, cut, iso9660::Iso, miniso};
use sha2::{Digest, Sha256, Sha512};
use std::{
    collections::BTreeMap,
    fs::{File, Metadata},
    io::{self, BufReader, Read, Seek},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes of an ELF file that show its architecture.
const PROGRAM_START_BYTES: u64 = 4 << 10;

/// Files that can't be served.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Image(#[from] ImageError),
    /// It is not an ISO, or has no room for a config.
    #[error("cannot put an Ignition config into {}", path.display())]
    Iso { path: PathBuf, source: rootfs_overlay::area::AreaError },
    /// The ISO has no room for kernel arguments.
    #[error(transparent)]
    Kargs(#[from] rootfs_overlay::kargs::KargsError),
    #[error("two {what} are for {processor}: give one per processor architecture")]
    SameProcessor { what: &'static str, processor: &'static str },
    /// A listed ISO is not what the list says.
    #[error("{} is for {processor}, but its OS image is listed for {listed}", path.display())]
    OtherProcessor { path: PathBuf, processor: &'static str, listed: String },
    #[error("{} and {} are both listed as OS image {build} for {processor}", path.display(), other.display())]
    SameBuild { path: PathBuf, other: PathBuf, build: String, processor: String },
    /// The ISO's architecture can't be read.
    #[error(transparent)]
    Processor(#[from] BakeError),
    /// A file in the ISO can't be found.
    #[error("cannot read the files in {}", path.display())]
    Inside { path: PathBuf, source: rootfs_overlay::iso9660::IsoError },
    /// The minimal ISO can't be unpacked.
    #[error("cannot unpack the minimal ISO in {}: {reason:#}", path.display())]
    Minimal { path: PathBuf, reason: anyhow::Error },
    /// There can be no minimal ISO, or it can't be written.
    #[error(transparent)]
    Cut(#[from] cut::CutError),
    /// The config can't be overlaid.
    #[error(transparent)]
    Patch(#[from] rootfs_overlay::PatchError),
}

/// The served files, by fixed names only: no request ever becomes a path.
#[derive(Debug, Default)]
pub struct Media {
    isos: Vec<LiveIso>,
    /// ISOs of listed OS images, by path.
    listed: BTreeMap<PathBuf, LiveIso>,
    images: DiskImages,
    programs: Vec<Agent>,
}

/// A live ISO.
#[derive(Debug)]
pub struct LiveIso {
    path: PathBuf,
    processor: Option<Machine>,
    /// Architecture and build of the OS image that it is listed as.
    listed_as: Option<(String, String)>,
    minimal: Mutex<Option<PathBuf>>,
}

#[derive(Debug)]
struct Agent {
    file: Arc<File>,
    sha512: String,
    processor: Option<Machine>,
}

/// The entry for a processor; else one whose processor is unknown.
fn for_processor<'a, T>(
    all: &'a [T],
    processor_of: impl Fn(&T) -> Option<Machine>,
    architecture: &str,
) -> Option<&'a T> {
    let is_for = |one: &&T| processor_of(one).is_some_and(|machine| service_name(machine) == architecture);
    all.iter().find(is_for).or_else(|| all.iter().find(|one| processor_of(one).is_none()))
}

/// A processor as releases and infra-envs name it.
fn service_name(machine: Machine) -> &'static str {
    normal_architecture(machine.name())
}

/// Refuses two entries for the same processor.
fn check_one_each(what: &'static str, all: impl Iterator<Item = Option<Machine>>) -> Result<(), MediaError> {
    let mut seen = Vec::new();
    for machine in all {
        if seen.contains(&machine) {
            let processor = machine.map_or("an unknown processor", Machine::name);
            return Err(MediaError::SameProcessor { what, processor });
        }
        seen.push(machine);
    }
    Ok(())
}

impl Media {
    /// Opens all files; there may be one ISO and one binary per processor. A signature beside an image (`FILE.sig`) is served too;
    /// without a binary for this processor, the installed one is served.
    pub fn open(isos: &[PathBuf], images: &[DiskImage], programs: &[PathBuf]) -> Result<Self, MediaError> {
        let mut media = Self::default();
        for iso in isos {
            media.isos.push(LiveIso::open(iso)?);
        }
        check_one_each("live ISOs", media.isos.iter().map(|iso| iso.processor))?;
        media.images = DiskImages::open(images)?;
        media.programs = programs.iter().map(|path| Agent::open(path)).collect::<Result<_, _>>()?;
        check_one_each("binaries", media.programs.iter().map(|program| program.processor))?;
        if media.agent_for(std::env::consts::ARCH).is_none() {
            media.programs.push(Agent::open(&rootfs_overlay::program_for_images())?);
        }
        Ok(media)
    }

    /// Opens the ISOs of listed OS images, too.
    pub fn with_listed(mut self, images: &[OsImage]) -> Result<Self, MediaError> {
        for image in images {
            let Some(path) = image.path() else { continue };
            let iso = LiveIso::of_image(path, image)?;
            let same = |other: &&LiveIso| other.path != path && other.listed_as == iso.listed_as;
            if let Some(other) = self.listed.values().find(same).map(|other| other.path.clone()) {
                let (processor, build) = (image.cpu_architecture.clone(), image.version.clone());
                return Err(MediaError::SameBuild { path: path.into(), other, build, processor });
            }
            self.listed.insert(path.into(), iso);
        }
        Ok(self)
    }

    /// The ISO of a listed OS image, if it is on this machine.
    pub(crate) fn listed(&self, image: &OsImage) -> Option<&LiveIso> {
        self.listed.get(image.path()?)
    }

    /// The image for the disks of hosts.
    pub(crate) fn image_for(&self, hosts: &Target) -> Option<&str> {
        self.images.choose(hosts)
    }

    /// Whether there is any image.
    pub(crate) fn has_image(&self) -> bool {
        !self.images.is_empty()
    }

    fn agent_for(&self, architecture: &str) -> Option<&Agent> {
        for_processor(&self.programs, |program| program.processor, normal_architecture(architecture))
    }

    /// SHA-512 of our binary for a processor, hexadecimal; `None` without one.
    pub fn agent_sha512(&self, architecture: &str) -> Option<&str> {
        self.agent_for(architecture).map(|agent| agent.sha512.as_str())
    }

    /// Whether there is an ISO.
    pub(crate) fn has_iso(&self) -> bool {
        !self.isos.is_empty() || !self.listed.is_empty()
    }

    /// The ISO for a processor.
    pub fn iso_for(&self, architecture: &str) -> Option<&LiveIso> {
        for_processor(&self.isos, |iso| iso.processor, normal_architecture(architecture))
    }

    /// The processors of the ISOs, as a service names them.
    pub(crate) fn processors_of_isos(&self) -> Vec<&'static str> {
        self.isos.iter().filter_map(|iso| iso.processor).map(service_name).collect()
    }

    /// The ISO at `path` with `archives` in it, and `arguments` appended to its kernel arguments.
    pub fn iso(
        &self,
        path: &Path,
        name: String,
        archives: Vec<u8>,
        arguments: &[String],
        modified: i64,
    ) -> Result<Offer, MediaError> {
        let mut digest = Sha256::new_with_prefix(&archives);
        arguments.iter().for_each(|argument| digest.update(argument));
        let mut patches = vec![
            rootfs_overlay::area::content_patch(path, archives)
                .map_err(|source| MediaError::Iso { path: path.to_owned(), source })?,
        ];
        if !arguments.is_empty() {
            patches.extend(rootfs_overlay::kargs::append_patches(path, arguments)?);
        }
        let metadata = path.metadata().map_err(|source| MediaError::Read { path: path.to_owned(), source })?;
        let image = PatchedImage::open(path, patches)?;
        let digest = hex(&digest.finalize()[..16]);
        let validators = validators(&metadata, &digest, modified);
        let len = image.len();
        Ok(Offer { source: Arc::new(image), len, validators, name, media_type: "application/x-iso9660-image" })
    }
}

impl LiveIso {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(path: &Path) -> Result<Self, MediaError> {
        // An ISO without room for a config must fail now, not when the first machine fetches it.
        rootfs_overlay::ignition_patch(path, b"{}").map_err(|source| MediaError::Iso { path: path.into(), source })?;
        let processor = bake::iso::processor(path)?;
        Ok(Self { path: path.to_owned(), processor, listed_as: None, minimal: Mutex::default() })
    }

    /// That of a listed image, if it is for its processor.
    pub(crate) fn of_image(path: &Path, image: &OsImage) -> Result<Self, MediaError> {
        let iso = Self::open(path)?;
        if let Some(processor) = iso.processor.map(service_name).filter(|name| *name != image.cpu_architecture) {
            let listed = image.cpu_architecture.clone();
            return Err(MediaError::OtherProcessor { path: path.into(), processor, listed });
        }
        Ok(Self { listed_as: Some((image.cpu_architecture.clone(), image.version.clone())), ..iso })
    }

    /// The build of the OS image that it is listed as.
    pub(crate) fn build(&self) -> Option<&str> {
        self.listed_as.as_ref().map(|(_, build)| build.as_str())
    }

    /// The minimal ISO's file in the state directory.
    fn minimal_file(&self) -> String {
        if let Some((processor, build)) = &self.listed_as {
            let build = hex(&Sha256::digest(build)[..8]);
            return format!("minimal.{processor}.{build}.iso");
        }
        let other = self.processor.map(service_name).filter(|processor| *processor != normal_architecture(""));
        other.map_or("minimal.iso".to_owned(), |processor| format!("minimal.{processor}.iso"))
    }

    /// The query of the addresses of its files; empty for the default.
    pub(crate) fn query(&self) -> String {
        if let Some((processor, build)) = &self.listed_as {
            return format!("?arch={processor}&version={}", url_part(build));
        }
        let other = self.processor.map(service_name).filter(|processor| *processor != normal_architecture(""));
        other.map_or(String::new(), |processor| format!("?arch={processor}"))
    }

    /// The base of minimal ISOs: made when first requested, and stored in `directory`.
    pub fn minimal(&self, directory: &Path, rootfs_url: &str) -> Result<PathBuf, MediaError> {
        let failed = |reason| MediaError::Minimal { path: self.path.clone(), reason };
        let mut made = self.minimal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*made {
            return Ok(made.clone());
        }
        // An old one may still be open, and must not change.
        let mut draft = tempfile::NamedTempFile::new_in(directory).map_err(|error| failed(error.into()))?;
        match self.description()? {
            Some((data, mut full)) => {
                miniso::unpack(&data, &mut full, draft.as_file_mut(), Some(rootfs_url)).map_err(failed)?;
            }
            None => cut::write(&self.path, rootfs_url, draft.as_file_mut())?,
        }
        let minimal = directory.join(self.minimal_file());
        draft.persist(&minimal).map_err(|error| failed(error.into()))?;
        Ok(made.insert(minimal).clone())
    }

    /// The description of the minimal ISO in the full one, if it is true of it: what was baked in later is not in it.
    fn description(&self) -> Result<Option<(miniso::Data, File)>, MediaError> {
        let path = &self.path;
        let failed = |source| MediaError::Inside { path: path.clone(), source };
        let full = File::open(path).map_err(|source| MediaError::Read { path: path.clone(), source })?;
        let mut iso = Iso::open(BufReader::new(&full)).map_err(failed)?;
        let is_baked = || bake::iso::IsoFile::open(path).is_ok_and(|iso| iso.manifest().is_some());
        if iso.find_optional(miniso::MINISO_PATH).map_err(failed)?.is_none() || is_baked() {
            return Ok(None);
        }
        let data = iso.read_file(miniso::MINISO_PATH, 2 * miniso::MAX_DATA_BYTES).map_err(failed)?;
        drop(iso);
        let data = miniso::Data::decode(&data).inspect_err(|error| {
            tracing::warn!(iso = %path.display(), %error, "the ISO's description of its minimal form is not used");
        });
        Ok(data.ok().map(|data| (data, full)))
    }

    /// A file inside the ISO.
    pub(crate) fn in_iso(&self, inside: &str, name: &str) -> Result<Option<Offer>, MediaError> {
        let path = &self.path;
        let read = |source| MediaError::Read { path: path.clone(), source };
        let file = File::open(path).map_err(read)?;
        let metadata = file.metadata().map_err(read)?;
        let failed = |source| MediaError::Inside { path: path.clone(), source };
        let mut iso = Iso::open(BufReader::new(&file)).map_err(failed)?;
        let Some(extent) = iso.find_optional(inside).map_err(failed)? else { return Ok(None) };
        drop(iso);
        Ok(Some(Offer {
            source: Arc::new(Slice { file, offset: extent.offset }),
            len: extent.len,
            validators: validators(&metadata, name, 0),
            name: name.to_owned(),
            media_type: "application/octet-stream",
        }))
    }

    /// The ISO's initramfs followed by `rest`.
    pub fn initrd(&self, name: String, rest: Vec<u8>, modified: i64) -> Result<Option<Offer>, MediaError> {
        let Some(first) = self.in_iso("images/pxeboot/initrd.img", "initrd.img")? else { return Ok(None) };
        // A following archive starts at a multiple of four bytes.
        let gap = first.len.next_multiple_of(4) - first.len;
        let mut behind = vec![0; usize::try_from(gap).unwrap_or_default()];
        behind.extend(rest);
        let digest = hex(&Sha256::digest(&behind)[..16]);
        let etag = format!("{}-{digest}\"", first.validators.etag.trim_end_matches('"'));
        let mut joined = Joined::default();
        joined.push(first.source, first.len);
        joined.push_bytes(behind);
        Ok(Some(Offer {
            len: joined.bytes(),
            source: Arc::new(joined),
            validators: Validators { etag, modified: modified.max(first.validators.modified) },
            name,
            media_type: first.media_type,
        }))
    }

    /// What IBM Z's loader reads beside `initrd`: where it goes, as the ISO has it, and its length. Both are big-endian numbers of 64
    /// bits.
    pub(crate) fn addrsize(&self, name: String, initrd: &Offer) -> Result<Option<Offer>, MediaError> {
        let inside = "images/initrd.addrsize";
        let Some(original) = self.in_iso(inside, "initrd.addrsize")?.filter(|file| file.len >= 8) else {
            return Ok(None);
        };
        let mut bytes = vec![0; 8];
        let read = original.source.read_exact_at(&mut bytes, 0);
        read.map_err(|source| MediaError::Read { path: self.path.join(inside), source })?;
        bytes.extend(initrd.len.to_be_bytes());
        let etag = format!("{}-addrsize\"", initrd.validators.etag.trim_end_matches('"'));
        let validators = Validators { etag, modified: initrd.validators.modified };
        let len = u64::try_from(bytes.len()).unwrap_or_default();
        Ok(Some(Offer { source: Arc::new(bytes), len, validators, name, media_type: original.media_type }))
    }
}

impl Agent {
    fn open(path: &Path) -> Result<Self, MediaError> {
        let read = |source| MediaError::Read { path: path.into(), source };
        // Stays open: the digest is of these bytes, even if the file is replaced.
        let file = File::open(path).map_err(read)?;
        let mut start = Vec::new();
        (&file).take(PROGRAM_START_BYTES).read_to_end(&mut start).map_err(read)?;
        (&file).rewind().map_err(read)?;
        let sha512 = sha512(&file).map_err(read)?;
        Ok(Self { file: Arc::new(file), sha512, processor: Machine::of_start(&start) })
    }
}

impl Media {
    /// An OS image, or the signature of one.
    pub fn image(&self, name: &str) -> Result<Option<Offer>, MediaError> {
        let Some((name, path)) = self.images.find(name) else { return Ok(None) };
        let read = |source| MediaError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(read)?;
        offer(Arc::new(file), name).map(Some).map_err(read)
    }

    /// Our binary for a processor.
    pub fn agent(&self, architecture: &str) -> Result<Option<Offer>, MediaError> {
        let read = |source| MediaError::Read { path: "landfall".into(), source };
        self.agent_for(architecture).map(|agent| offer(agent.file.clone(), "landfall").map_err(read)).transpose()
    }
}

pub(crate) fn stored(path: &Path, name: &str) -> io::Result<Offer> {
    offer(Arc::new(File::open(path)?), name)
}

fn offer(file: Arc<File>, name: &str) -> io::Result<Offer> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let validators = validators(&metadata, "0", 0);
    Ok(Offer {
        source: file,
        len: metadata.len(),
        validators,
        name: name.to_owned(),
        media_type: "application/octet-stream",
    })
}

fn validators(metadata: &Metadata, variant: &str, modified: i64) -> Validators {
    let (inode, size, seconds, nanos) = (metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    Validators {
        etag: format!("\"{inode:x}-{size:x}-{seconds:x}.{nanos:x}-{variant}\""),
        modified: modified.max(seconds),
    }
}

fn sha512(mut file: &File) -> io::Result<String> {
    let mut digest = Sha512::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            count => digest.update(&buffer[..count]),
        }
    }
}

impl ReadAt for PatchedImage {
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = match self.read_at(offset, buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            buffer = &mut buffer[count..];
            offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much of a program as tells what it is for.
    fn program(machine: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = machine;
        bytes
    }

    #[test]
    fn each_processor_gets_the_program_that_is_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let files = [("arm", program(183)), ("x86", program(62)), ("other-arm", program(183))];
        for (name, bytes) in &files {
            std::fs::write(directory.path().join(name), bytes).unwrap();
        }
        let paths = |names: &[&str]| names.iter().map(|name| directory.path().join(name)).collect::<Vec<_>>();
        let open = |programs: &[&str]| Media::open(&[], &[], &paths(programs));
        let media = open(&["arm", "x86"]).unwrap();
        let digest = |name: &str| sha512(&File::open(directory.path().join(name)).unwrap()).unwrap();
        for (architecture, name) in [("", "x86"), ("x86_64", "x86"), ("aarch64", "arm"), ("arm64", "arm")] {
            assert_eq!(media.agent_sha512(architecture), Some(digest(name).as_str()), "{architecture}");
        }
        assert_eq!(media.agent_sha512("s390x"), None, "it would not start there");
        let one = open(&["arm"]).unwrap();
        assert!(one.agent_sha512(std::env::consts::ARCH).is_some(), "the running one is there for its own processor");
        let twice = open(&["arm", "other-arm"]).unwrap_err().to_string();
        assert_eq!(twice, "two binaries are for aarch64: give one per processor architecture");
    }

    #[test]
    fn an_iso_of_another_processor_is_not_handed_out() {
        let iso = |processor| LiveIso { path: PathBuf::new(), processor, listed_as: None, minimal: Mutex::default() };
        let media = |processors: &[Option<Machine>]| Media {
            isos: processors.iter().map(|processor| iso(*processor)).collect(),
            ..Media::default()
        };
        let chosen = |media: &Media, architecture: &str| media.iso_for(architecture).map(|iso| iso.processor);
        let both = media(&[Some(Machine::X86_64), Some(Machine::Aarch64)]);
        assert_eq!(chosen(&both, "arm64"), Some(Some(Machine::Aarch64)));
        assert_eq!(chosen(&both, "aarch64"), Some(Some(Machine::Aarch64)));
        assert_eq!(chosen(&both, "x86_64"), Some(Some(Machine::X86_64)));
        assert_eq!(chosen(&both, "ppc64le"), None);
        let arm = media(&[Some(Machine::Aarch64)]);
        assert_eq!((chosen(&arm, "x86_64"), arm.processors_of_isos()), (None, vec!["arm64"]));
        assert_eq!(arm.isos[0].query(), "?arch=arm64");
        assert_eq!(chosen(&media(&[None]), "x86_64"), Some(None), "what doesn't tell is for all");
    }
}
