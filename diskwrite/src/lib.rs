//! diskwrite
