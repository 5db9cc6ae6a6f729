//! service-stub
