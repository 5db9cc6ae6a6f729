//! netcheck
