//! An image into a file, as it comes or unpacked, and its signature.

use crate::buffer::{Block, Buffer};
use crate::decode::DecodeError;
use crate::ends::HEAD_BYTES;
use crate::event::{Event, Meter};
use crate::flight::bytes;
use crate::options::InstallOptions;
use crate::source::SourceError;
use crate::stream::{LOOK_AROUND, Message, Packing, Pump};
use crate::trust::SignatureAt;
use crate::verify::{self, VerifyError};
use std::{fs::File, io, os::unix::fs::FileExt, time::Instant};

/// A detached signature, and where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub at: SignatureAt,
    /// As it lies there: OpenPGP's, binary or armored.
    pub bytes: Vec<u8>,
}

/// The OpenPGP signature of the source in `options`, from its place; the reason if there is none.
pub fn signature(options: &InstallOptions) -> Result<Signature, String> {
    let at = verify::signature_at(options).ok_or_else(|| "standard input has no signature beside it".to_owned())?;
    let bytes = verify::signature_from(options, &at)?;
    Ok(Signature { at, bytes })
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The signature can't be used.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The source failed, can't be unpacked, or nothing vouches for what came.
    #[error(transparent)]
    Source(#[from] DecodeError),
    #[error("the image has {bytes} bytes, less than a MiB: is it the right file?")]
    TooShort { bytes: usize },
    /// The file doesn't take it.
    #[error("cannot write the image at byte {offset}")]
    Write { offset: u64, source: io::Error },
}

/// An open image on its way to a file.
pub struct Copy {
    pump: Pump,
    head: Buffer,
    total: Option<u64>,
}

impl Copy {
    /// Opens the source and reads its first MiB. The image must match `signature` and the sum in `options`, if given.
    pub fn open(options: &InstallOptions, signature: Option<&Signature>, packing: Packing) -> Result<Self, CopyError> {
        let taps = verify::signed(options, signature.map(|signature| (&signature.at, &*signature.bytes)))?;
        let pump = Pump::start_as(options, taps, packing)?;
        loop {
            match pump.next(LOOK_AROUND) {
                Some(Message::Opened { head, .. }) if head.len() < HEAD_BYTES => {
                    return Err(CopyError::TooShort { bytes: head.len() });
                }
                Some(Message::Opened { total, head, .. }) => return Ok(Self { pump, head, total }),
                Some(Message::Retrying(retry)) => {
                    tracing::warn!("{}; trying again in {:.1} s", retry.error, retry.wait.as_secs_f32());
                }
                Some(Message::Failed(error)) => return Err(error.into()),
                Some(Message::Block(_) | Message::End { .. }) | None => {}
            }
            if options.cancelled() {
                return Err(DecodeError::Source(SourceError::Cancelled { offset: 0 }).into());
            }
        }
    }

    /// Writes all of it to `file`, or without one only verifies it. The first MiB is written last, when the rest is
    /// written and verified. Returns the copy's size.
    pub fn write(self, file: Option<&File>, on_event: &mut dyn FnMut(&Event)) -> Result<u64, CopyError> {
        let mut meter = Meter::new(self.total);
        let mut tell = |written_bytes, forced| {
            let (read, waits) = (self.pump.source_bytes(), self.pump.waits());
            if let Some(event) = meter.tick(Instant::now(), read, written_bytes, waits, forced) {
                on_event(&event);
            }
        };
        let put = |data: &[u8], offset| {
            let written = file.map_or(Ok(()), |file| file.write_all_at(data, offset));
            written.map_err(|source| CopyError::Write { offset, source })
        };
        let image_bytes = loop {
            match self.pump.next(LOOK_AROUND) {
                Some(Message::Block(Block { offset, data })) => {
                    put(&data, offset)?;
                    let end = offset.saturating_add(bytes(data.len()));
                    self.pump.give_back(data);
                    tell(end, false);
                }
                Some(Message::Retrying(retry)) => {
                    tracing::warn!("{}; trying again in {:.1} s", retry.error, retry.wait.as_secs_f32());
                }
                Some(Message::End { image_bytes }) => break image_bytes,
                Some(Message::Failed(error)) => return Err(error.into()),
                Some(Message::Opened { .. }) | None => {}
            }
        };
        put(&self.head, 0)?;
        if let Some(file) = file {
            file.sync_all().map_err(|source| CopyError::Write { offset: image_bytes, source })?;
        }
        tell(image_bytes, true);
        Ok(image_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Source;
    use crate::verify::VerifyError;
    use flate2::{Compression, write::GzEncoder};
    use sha2::{Digest, Sha256};
    use std::io::Write;

    /// More than a block of what doesn't get smaller.
    fn image() -> Vec<u8> {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        };
        (0..(5 << 20) + 17).map(|_| next()).collect()
    }

    fn options(source: Source) -> InstallOptions {
        InstallOptions { source, ..Default::default() }
    }

    fn copy(options: &InstallOptions, packing: Packing) -> Result<Vec<u8>, CopyError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut last = None;
        let keep = &mut |event: &Event| last = Some(event.clone());
        let len = Copy::open(options, None, packing)?.write(Some(file.as_file()), keep)?;
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(u64::try_from(bytes.len()).unwrap(), len);
        let Some(Event::Progress { source_bytes_read, source_total, written_bytes, percent, .. }) = last else {
            panic!("{last:?}")
        };
        assert_eq!((Some(source_bytes_read), written_bytes, percent), (source_total, len, Some(100)));
        Ok(bytes)
    }

    #[test]
    fn a_packed_image_comes_out_either_way_and_is_held_to_its_sum() {
        let mut packed = GzEncoder::new(tempfile::NamedTempFile::new().unwrap(), Compression::fast());
        packed.write_all(&image()).unwrap();
        let packed = packed.finish().unwrap();
        let bytes = std::fs::read(packed.path()).unwrap();
        let mut options = options(Source::File(packed.path().into()));
        options.trust.sha256 = Some(Sha256::digest(&bytes).into());
        assert!(copy(&options, Packing::AsItComes).unwrap() == bytes);
        assert!(copy(&options, Packing::Unpacked).unwrap() == image());
        options.trust.sha256 = Some([7; 32]);
        for packing in [Packing::AsItComes, Packing::Unpacked] {
            let error = copy(&options, packing).unwrap_err();
            assert!(matches!(error, CopyError::Source(DecodeError::Verify(VerifyError::Sha256 { .. }))), "{error}");
        }
    }

    #[test]
    fn what_is_no_image_is_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&[1; 1000], 0).unwrap();
        let error = copy(&options(Source::File(file.path().into())), Packing::AsItComes).unwrap_err();
        assert!(matches!(error, CopyError::TooShort { bytes: 1000 }), "{error}");
        let bad = Signature { at: SignatureAt::File("x.sig".into()), bytes: b"nonsense".to_vec() };
        let error = Copy::open(&options(Source::File(file.path().into())), Some(&bad), Packing::AsItComes).err();
        assert!(matches!(error, Some(CopyError::Verify(VerifyError::NoSignature { .. }))), "{error:?}");
    }

    #[test]
    fn nothing_of_a_bad_image_looks_like_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&image(), 0).unwrap();
        let mut options = options(Source::File(file.path().into()));
        options.trust.sha256 = Some([7; 32]);
        let target = tempfile::NamedTempFile::new().unwrap();
        let open = Copy::open(&options, None, Packing::AsItComes).unwrap();
        open.write(Some(target.as_file()), &mut |_| ()).unwrap_err();
        assert!(std::fs::read(target.path()).unwrap()[..HEAD_BYTES].iter().all(|byte| *byte == 0));
    }
}
