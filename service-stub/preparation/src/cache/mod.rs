//! `openshift-install` of each release, taken out of its release image once.
