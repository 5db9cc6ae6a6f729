//! `serde_norway` by the name of the library with which kube reads kubeconfigs: one YAML library in the program.

use serde::de::DeserializeOwned;
pub use serde_norway::Error;

/// A document of YAML or JSON.
///
/// # Errors
///
/// It is not one, or not of that type.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_norway::from_slice(bytes)
}

/// All documents of a text.
///
/// # Errors
///
/// One of them is not YAML, or not of that type.
pub fn from_multiple<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, Error> {
    serde_norway::Deserializer::from_str(text).map(T::deserialize).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;

    #[test]
    fn documents_are_read_one_by_one() {
        assert_eq!(from_multiple::<Vec<u8>>("[1]\n---\n- 2\n- 3\n").unwrap(), [vec![1], vec![2, 3]]);
        assert!(from_multiple::<u8>("1\n---\n[").is_err());
        assert_eq!(from_slice::<Vec<u8>>(b"[1, 2]").unwrap(), [1, 2]);
    }
}
