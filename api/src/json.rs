//! Serde habits of Go's encoder that the wire shows.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's default: the service treats `null`, `[]` and absence alike.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
