//! Files of the host, which may be anything.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// All of a file; an error where that is more than `max_len` bytes.
pub(crate) fn read_bounded(path: &Path, max_len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let len = File::open(path)?.take(max_len.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(len) {
        Ok(len) if len <= max_len => Ok(bytes),
        _ => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {} KiB", max_len >> 10))),
    }
}

/// As [`read_bounded`], as text; what is not UTF-8 becomes U+FFFD.
pub(crate) fn read_text(path: &Path, max_len: u64) -> io::Result<String> {
    read_bounded(path, max_len).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_not_cut_but_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [b'a'; 1024]).unwrap();
        assert_eq!(read_text(file.path(), 1024).unwrap().len(), 1024);
        std::fs::write(file.path(), [0xff; 1025]).unwrap();
        assert_eq!(read_bounded(file.path(), 1024).unwrap_err().to_string(), "it is longer than 1 KiB");
        assert_eq!(read_bounded(Path::new("/dev/zero"), 1024).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(file.path(), b"a\xff").unwrap();
        assert_eq!(read_text(file.path(), 1024).unwrap(), "a\u{fffd}");
    }
}
