//! xz: a splitter finds where each block of the stream begins and ends without unpacking it, workers unpack the blocks side
//! by side, and their output goes to its own place of the image.

mod format;
mod pages;
mod split;
mod workers;

pub(crate) use format::XzError;
pub(super) use workers::unpack;

#[cfg(test)]
#[path = "xz_tests.rs"]
mod tests;

/// Walks a stream as it comes in pieces of `piece` bytes; for the fuzzer.
#[cfg(fuzzing)]
pub(crate) fn walk(stream: &[u8], piece: usize) {
    let mut splitter = split::Splitter::default();
    for mut rest in stream.chunks(piece.max(1)) {
        while !rest.is_empty() {
            let Ok((used, _)) = splitter.next(rest) else { return };
            rest = rest.get(used..).unwrap_or_default();
        }
    }
}
