//! The files on offer: the live ISO, OS images, and our own binary.

use crate::http::file::{Offer, ReadAt, Slice};
use crate::http::joined::Joined;
use crate::http::range::Validators;
use rootfs_overlay::{PatchedImage, iso9660::Iso, miniso};
use sha2::{Digest, Sha256, Sha512};
use std::{
    collections::BTreeMap,
    fs::{File, Metadata},
    io::{self, BufReader, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// The minimal ISO in the state directory.
const MINIMAL_FILE: &str = "minimal.iso";

/// Files that can't be put on offer.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has no file name that a URL can carry: use letters, digits, and . _ - +", path.display())]
    Name { path: PathBuf },
    #[error("two images are named {name}: file names are what URLs tell them apart by")]
    Twice { name: String },
    /// The ISO has no room for a config, or isn't one.
    #[error("{} can't carry an Ignition config", path.display())]
    Iso { path: PathBuf, source: rootfs_overlay::area::AreaError },
    /// Kernel arguments can't be put into the ISO.
    #[error(transparent)]
    Kargs(#[from] rootfs_overlay::kargs::KargsError),
    /// A file of the ISO can't be found.
    #[error("the files in {} can't be read", path.display())]
    Inside { path: PathBuf, source: rootfs_overlay::iso9660::IsoError },
    /// The minimal ISO can't be made.
    #[error("{} has a minimal ISO in it that can't be unpacked: {reason:#}", path.display())]
    Minimal { path: PathBuf, reason: anyhow::Error },
    /// The config can't be laid over the ISO.
    #[error(transparent)]
    Patch(#[from] rootfs_overlay::PatchError),
}

/// The files on offer, by fixed names only: no request ever becomes a path.
#[derive(Debug, Default)]
pub struct Media {
    iso: Option<PathBuf>,
    minimal: Mutex<Option<PathBuf>>,
    images: BTreeMap<String, PathBuf>,
    first_image: Option<String>,
    agent: Option<Agent>,
}

#[derive(Debug)]
struct Agent {
    file: Arc<File>,
    sha512: String,
}

impl Media {
    /// Checks that everything is there. A signature lying beside an image (`FILE.sig`) is offered with it; the program
    /// for images is offered when no other is given.
    pub fn open(iso: Option<&Path>, images: &[PathBuf], agent: Option<&Path>) -> Result<Self, MediaError> {
        let mut media = Self { iso: iso.map(Path::to_owned), ..Self::default() };
        if let Some(iso) = iso {
            // An ISO without room for a config must be known now, not when the first machine asks for it.
            rootfs_overlay::ignition_patch(iso, b"{}")
                .map_err(|source| MediaError::Iso { path: iso.into(), source })?;
        }
        for path in images {
            readable(path)?;
            let name = media.add_image(path)?;
            media.first_image.get_or_insert(name);
            let mut signature = path.clone().into_os_string();
            signature.push(".sig");
            let signature = PathBuf::from(signature);
            if signature.is_file() && !images.contains(&signature) {
                media.add_image(&signature)?;
            }
        }
        // Kept open: the digest is of these bytes, whatever becomes of the name.
        let path = &agent.map_or_else(rootfs_overlay::program_for_images, Path::to_owned);
        let read = |source| MediaError::Read { path: path.into(), source };
        let file = File::open(path).map_err(read)?;
        let sha512 = sha512(&file).map_err(read)?;
        media.agent = Some(Agent { file: Arc::new(file), sha512 });
        Ok(media)
    }

    fn add_image(&mut self, path: &Path) -> Result<String, MediaError> {
        let plain = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b));
        let name = path.file_name().and_then(|name| name.to_str()).filter(plain);
        let name = name.ok_or_else(|| MediaError::Name { path: path.into() })?.to_owned();
        match self.images.insert(name.clone(), path.into()) {
            None => Ok(name),
            Some(_) => Err(MediaError::Twice { name }),
        }
    }

    /// The image hosts are installed from.
    pub(crate) fn first_image(&self) -> Option<&str> {
        self.first_image.as_deref()
    }

    /// SHA-512 of our binary, hexadecimal; none when nothing is on offer.
    pub fn agent_sha512(&self) -> Option<&str> {
        self.agent.as_ref().map(|agent| agent.sha512.as_str())
    }

    /// Whether there is an ISO.
    pub(crate) fn has_iso(&self) -> bool {
        self.iso.is_some()
    }

    /// Where the full ISO is.
    pub fn full(&self) -> Option<&Path> {
        self.iso.as_deref()
    }

    /// The ISO at `path` with `archives` in it, and `arguments` behind its kernel arguments.
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

    /// What minimal ISOs are made of: unpacked from the full one when it is first asked for, and kept in `directory`. None when the
    /// full ISO doesn't say how.
    pub fn minimal(&self, directory: &Path, rootfs_url: &str) -> Result<Option<PathBuf>, MediaError> {
        let Some(path) = &self.iso else { return Ok(None) };
        let failed = |source| MediaError::Inside { path: path.clone(), source };
        let read = |source| MediaError::Read { path: path.clone(), source };
        let mut made = self.minimal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*made {
            return Ok(Some(made.clone()));
        }
        let mut full = File::open(path).map_err(read)?;
        let mut iso = Iso::open(BufReader::new(&full)).map_err(failed)?;
        if iso.find_optional(miniso::MINISO_PATH).map_err(failed)?.is_none() {
            return Ok(None);
        }
        let data = iso.read_file(miniso::MINISO_PATH, 2 * miniso::MAX_DATA_BYTES).map_err(failed)?;
        drop(iso);
        let mut unpack = || {
            let data = miniso::Data::decode(&data)?;
            // Another one may be open still, and stays what it is.
            let mut draft = tempfile::NamedTempFile::new_in(directory)?;
            miniso::unpack(&data, &mut full, draft.as_file_mut(), Some(rootfs_url))?;
            let kept = directory.join(MINIMAL_FILE);
            draft.persist(&kept)?;
            Ok(kept)
        };
        let kept = unpack().map_err(|reason| MediaError::Minimal { path: path.clone(), reason })?;
        *made = Some(kept.clone());
        Ok(Some(kept))
    }

    /// A file inside the ISO.
    pub(crate) fn in_iso(&self, inside: &str, name: &str) -> Result<Option<Offer>, MediaError> {
        let Some(path) = &self.iso else { return Ok(None) };
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

    /// The ISO's initramfs with `rest` behind it.
    pub fn initrd(&self, name: String, rest: Vec<u8>, modified: i64) -> Result<Option<Offer>, MediaError> {
        let Some(first) = self.in_iso("images/pxeboot/initrd.img", "initrd.img")? else { return Ok(None) };
        // An archive behind another begins at a multiple of four bytes.
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

    /// An OS image, or the signature of one.
    pub fn image(&self, name: &str) -> Result<Option<Offer>, MediaError> {
        let Some((name, path)) = self.images.get_key_value(name) else { return Ok(None) };
        let read = |source| MediaError::Read { path: path.clone(), source };
        let file = File::open(path).map_err(read)?;
        offer(Arc::new(file), name).map(Some).map_err(read)
    }

    /// Our binary.
    pub fn agent(&self) -> Result<Option<Offer>, MediaError> {
        let read = |source| MediaError::Read { path: "landfall".into(), source };
        self.agent.as_ref().map(|agent| offer(agent.file.clone(), "landfall").map_err(read)).transpose()
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

fn readable(path: &Path) -> Result<(), MediaError> {
    let check = || match File::open(path)?.metadata()?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file")),
    };
    check().map_err(|source| MediaError::Read { path: path.into(), source })
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

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
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

    #[test]
    fn images_are_found_by_their_names_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["os.raw.gz", "os.raw.gz.sig", "other.raw", "bad name"] {
            std::fs::write(path(name), name).unwrap();
        }
        let open = |images: &[PathBuf]| Media::open(None, images, Some(&path("other.raw")));
        let media = open(&[path("os.raw.gz"), path("other.raw")]).unwrap();
        assert_eq!(media.first_image(), Some("os.raw.gz"));
        assert_eq!(media.image("os.raw.gz.sig").unwrap().unwrap().len, 13, "found beside its image");
        for name in ["", ".", "..", "../os.raw.gz", "/etc/passwd", "bad name", "OS.raw.gz"] {
            assert!(media.image(name).unwrap().is_none(), "{name}");
        }
        assert!(matches!(open(&[path("bad name")]), Err(MediaError::Name { .. })));
        assert!(matches!(open(&[path("os.raw.gz"), path("os.raw.gz")]), Err(MediaError::Twice { .. })));
        assert!(matches!(open(&[path("gone")]), Err(MediaError::Read { .. })));
        assert!(matches!(open(&[directory.path().into()]), Err(MediaError::Read { .. })));
        assert_eq!(media.agent_sha512().unwrap().len(), 128);
    }
}
