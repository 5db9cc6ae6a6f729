//! Clusters whose install-time files the service makes, by a program that behaves as openshift-install does: what comes of it, what fails,
//! several clusters, and a service that is killed meanwhile.
#![allow(clippy::unwrap_used)] // a test may fail anywhere

use crate::common;
mod faults;
mod files;
mod rack;
#[allow(dead_code)] // another test needs the rest
use crate::server;
