//! Behaves as `openshift-install` does.
fn main() {}
