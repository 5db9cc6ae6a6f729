//! Puts the double where a test wants it.
