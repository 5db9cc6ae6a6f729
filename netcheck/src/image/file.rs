//! One file out of an image, without the image: its last layers are searched, each verified, and nothing is stored. [`Layers`] gives
//! the layers themselves to callers that search by other rules.

use super::{
    ImageOptions,
    client::Client,
    error::{FetchError, Subject},
    fetch::{self, Found},
    manifest::Descriptor,
    reference::{Digest, ReferenceError},
    registries::{Endpoint, ResolveError},
};
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest as _, Sha256};
use std::{
    io::{self, BufRead, BufReader, Read},
    path::{Component, Path},
    time::Instant,
};

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Layers, from the last on.
    pub layers: usize,
    /// Bytes of a layer as it is stored; a larger one is passed over.
    pub layer_bytes: u64,
    /// Bytes of a layer once it is unpacked.
    pub unpacked_bytes: u64,
    pub file_bytes: u64,
    /// When everything ends.
    pub deadline: Instant,
}

/// Why a file can't be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not the name of an image.
    #[error("not a valid image name")]
    Name(#[from] ReferenceError),
    #[error("no registry for this name")]
    Resolve(#[from] ResolveError),
    /// The registry does not give it, the last of those that were asked.
    #[error("{registry} does not provide it")]
    Fetch {
        /// `host[:port]`.
        registry: String,
        source: Box<FetchError>,
    },
    /// A layer is not an archive.
    #[error("layer {digest} can't be unpacked")]
    Unpack { digest: Digest, source: io::Error },
    /// No layer that was looked at has it.
    #[error("none of its last {layers} layers has {path}")]
    Absent {
        /// How many were looked at.
        layers: usize,
        path: String,
    },
    #[error("{path} is larger than {limit_bytes} bytes")]
    TooLong { path: String, limit_bytes: u64 },
}

impl FileError {
    fn fetch(endpoint: &Endpoint, source: FetchError) -> Self {
        Self::Fetch { registry: endpoint.reference.registry.clone(), source: Box::new(source) }
    }
}

/// An image that was found in a registry.
pub struct Image {
    /// Of its manifest.
    pub digest: Digest,
    /// What its name stands for: the digest of an index with images for several architectures, else that of its manifest.
    pub named: Digest,
    endpoint: Endpoint,
    parts: Vec<Descriptor>,
}

/// The layers of an image, at the place where it was found.
pub struct Layers<'a> {
    client: Client<'a>,
    image: &'a Image,
    stop: &'a dyn Fn() -> bool,
}

impl Layers<'_> {
    /// Fetches a layer. `read` gets its bytes as they are stored, and what it returns counts only if all of them are those that the
    /// manifest names.
    pub fn fetch<T>(&self, layer: &Descriptor, read: impl FnOnce(&mut dyn Read) -> T) -> Result<T, FileError> {
        let fetch = |source| FileError::fetch(&self.image.endpoint, source);
        let response = self.client.persist(|| self.client.blob(&layer.digest)).map_err(fetch)?;
        let mut body = Verified::new(response.into_body().into_reader(), layer.size_bytes, self.stop);
        let found = read(&mut body);
        body.finish(layer).map_err(|fault| fetch(fault.into_error(&self.client, layer)))?;
        Ok(found)
    }
}

impl Image {
    /// Finds an image, asking for its manifest only.
    pub fn find(name: &str, options: &ImageOptions, deadline: Instant) -> Result<Self, FileError> {
        let mut failed = None;
        for endpoint in options.registries.endpoints(&name.parse()?)? {
            match find_at(&endpoint, options, deadline) {
                Ok(Found { named, digest, parts }) => return Ok(Self { digest, named, endpoint, parts }),
                Err(source) => {
                    failed = Some(FileError::fetch(&endpoint, source));
                }
            }
        }
        // A name that leads somewhere leads to one place at least.
        Err(failed.unwrap_or_else(|| ResolveError::Short { path: name.to_owned() }.into()))
    }

    /// From the first to the last.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = &Descriptor> + ExactSizeIterator {
        // The first part is the configuration.
        self.parts.iter().skip(1)
    }

    /// Prepares to fetch layers. While one comes, `stop` ends it with an error.
    pub fn open<'a>(
        &'a self,
        options: &'a ImageOptions,
        deadline: Instant,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Layers<'a>, FileError> {
        let client = Client::new(&self.endpoint, options, deadline);
        Ok(Layers { client: client.map_err(|source| FileError::fetch(&self.endpoint, source))?, image: self, stop })
    }

    /// Reads a file, named by its path without a slash in front.
    pub fn read(&self, path: &str, options: &ImageOptions, bounds: &Bounds) -> Result<Vec<u8>, FileError> {
        let opened = self.open(options, bounds.deadline, &|| false)?;
        let layers = self.layers().rev().take(bounds.layers);
        let mut looked_at = 0;
        for layer in layers.filter(|layer| layer.size_bytes <= bounds.layer_bytes) {
            looked_at += 1;
            // What is damaged is not an archive either, so this comes first.
            match opened.fetch(layer, |body| search(body, path, bounds))? {
                Ok(Some(content)) => return Ok(content),
                Ok(None) => {}
                Err(SearchError::TooLong) => {
                    return Err(FileError::TooLong { path: path.to_owned(), limit_bytes: bounds.file_bytes });
                }
                Err(SearchError::Io(source)) => {
                    return Err(FileError::Unpack { digest: layer.digest.clone(), source });
                }
            }
        }
        Err(FileError::Absent { layers: looked_at, path: path.to_owned() })
    }
}

fn find_at(endpoint: &Endpoint, options: &ImageOptions, deadline: Instant) -> Result<Found, FetchError> {
    if endpoint.blocked {
        return Err(FetchError::Blocked);
    }
    let client = Client::new(endpoint, options, deadline)?;
    fetch::find_image(&client, &endpoint.reference.version, options)
}

enum SearchError {
    Io(io::Error),
    TooLong,
}

impl From<io::Error> for SearchError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Looks for a file in a layer, packed or not.
fn search(layer: impl Read, path: &str, bounds: &Bounds) -> Result<Option<Vec<u8>>, SearchError> {
    let mut layer = BufReader::new(layer);
    let is_packed = layer.fill_buf()?.starts_with(&GZIP);
    let unpacked: Box<dyn Read + '_> = if is_packed { Box::new(MultiGzDecoder::new(layer)) } else { Box::new(layer) };
    let mut archive = tar::Archive::new(unpacked.take(bounds.unpacked_bytes));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() || !is_named(&entry.path()?, path) {
            continue;
        }
        if entry.size() > bounds.file_bytes {
            return Err(SearchError::TooLong);
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        return Ok(Some(content));
    }
    Ok(None)
}

/// Archives write `./path` or `path`.
fn is_named(found: &Path, path: &str) -> bool {
    let parts = found.components().filter(|part| *part != Component::CurDir);
    parts.eq(Path::new(path).components())
}

/// A layer on its way, counted and hashed.
struct Verified<'a, R> {
    body: R,
    stop: &'a dyn Fn() -> bool,
    hasher: Sha256,
    read_bytes: u64,
    limit_bytes: u64,
}

enum Fault {
    Broken(io::Error),
    Size(u64),
    Damaged(Digest),
}

impl Fault {
    fn into_error(self, client: &Client<'_>, layer: &Descriptor) -> FetchError {
        let subject = Subject::Blob(layer.digest.clone());
        match self {
            Self::Broken(error) => client.broken(subject, error),
            Self::Size(found_bytes) => FetchError::Size { subject, expected_bytes: layer.size_bytes, found_bytes },
            Self::Damaged(found) => FetchError::Damaged { subject, found },
        }
    }
}

impl<'a, R: Read> Verified<'a, R> {
    fn new(body: R, size_bytes: u64, stop: &'a dyn Fn() -> bool) -> Self {
        // One more than announced tells that there is more.
        Self { body, stop, hasher: Sha256::new(), read_bytes: 0, limit_bytes: size_bytes.saturating_add(1) }
    }

    /// Reads what is left, and says whether it was what the manifest names.
    fn finish(mut self, layer: &Descriptor) -> Result<(), Fault> {
        io::copy(&mut self, &mut io::sink()).map_err(Fault::Broken)?;
        if self.read_bytes != layer.size_bytes {
            return Err(Fault::Size(self.read_bytes));
        }
        let found = Digest::finish(self.hasher);
        if found == layer.digest { Ok(()) } else { Err(Fault::Damaged(found)) }
    }
}

impl<R: Read> Read for Verified<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("stopped"));
        }
        let left = usize::try_from(self.limit_bytes - self.read_bytes).unwrap_or(usize::MAX).min(buffer.len());
        if left == 0 {
            // The client below would wait for more.
            return Ok(0);
        }
        let length = self.body.read(&mut buffer[..left])?;
        self.hasher.update(&buffer[..length]);
        self.read_bytes += u64::try_from(length).unwrap_or(0);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::{io::Write, time::Duration};

    fn bounds() -> Bounds {
        Bounds {
            layers: 3,
            layer_bytes: 1 << 20,
            unpacked_bytes: 1 << 16,
            file_bytes: 100,
            deadline: Instant::now() + Duration::from_secs(60),
        }
    }

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, path, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn found(layer: &[u8]) -> Result<Option<Vec<u8>>, String> {
        search(layer, "dir/file", &bounds()).map_err(|error| match error {
            SearchError::Io(error) => error.to_string(),
            SearchError::TooLong => "too long".to_owned(),
        })
    }

    #[test]
    fn a_file_is_found_packed_or_not_and_within_bounds() {
        let plain = archive(&[("other", b"x"), ("dir/file", b"content")]);
        for layer in [plain.clone(), packed(&plain), packed(&archive(&[("./dir/file", b"content")]))] {
            assert_eq!(found(&layer), Ok(Some(b"content".to_vec())));
        }
        assert_eq!(found(&packed(&archive(&[("file", b"x"), ("dir/file2", b"x")]))), Ok(None));
        assert_eq!(found(&packed(&archive(&[("dir/file", &[0; 101])]))), Err("too long".to_owned()));
        // A small archive that unpacks to a large one ends at the bound, in the middle of an entry.
        let bomb = packed(&archive(&[("zeros", &[0; 1 << 20]), ("dir/file", b"content")]));
        assert!(found(&bomb).is_err(), "beyond the bound nothing is read");
        for garbage in [&b""[..], b"\x1f\x8bgarbage", b"text"] {
            assert!(!matches!(found(garbage), Ok(Some(_))), "{garbage:?}");
        }
    }

    #[test]
    fn a_layer_is_what_the_manifest_names_or_it_is_refused() {
        let bytes = b"layer".as_slice();
        let descriptor = |digest: &[u8], size_bytes| Descriptor { digest: Digest::compute(digest), size_bytes };
        let finish = |layer: &Descriptor| {
            let mut body = Verified::new(bytes, layer.size_bytes, &|| false);
            body.read_exact(&mut [0; 2]).unwrap();
            body.finish(layer)
        };
        assert!(finish(&descriptor(bytes, 5)).is_ok());
        assert!(matches!(finish(&descriptor(bytes, 4)), Err(Fault::Size(5))));
        assert!(matches!(finish(&descriptor(bytes, 6)), Err(Fault::Size(5))));
        assert!(matches!(finish(&descriptor(b"other", 5)), Err(Fault::Damaged(_))));
    }
}
