//! What must vouch for an image: taps that see its bytes, packed as they come, on their way to the decoder.

use crate::options::InstallOptions;

/// What does not vouch for the image.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Other bytes came than were asked for.
    #[error("the SHA-256 of the image is {found}, not {expected} as it should be")]
    Sha256 {
        /// In hexadecimal.
        expected: String,
        /// In hexadecimal.
        found: String,
    },
}

/// Sees every byte of the source exactly once and in order, whatever a server made of it, and then has its say. Runs on a
/// thread of its own.
pub(crate) trait Tap: Send {
    /// The next bytes of the source.
    fn update(&mut self, bytes: &[u8]);
    /// After the source's last byte: whether the image is good.
    fn finish(self: Box<Self>) -> Result<(), VerifyError>;
}

/// What is to vouch for the image of this installation; called before the source is opened.
pub(crate) fn taps(_options: &InstallOptions) -> Result<Vec<Box<dyn Tap>>, VerifyError> {
    Ok(Vec::new())
}
