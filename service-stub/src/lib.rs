//! `landfall serve`: a small service that speaks the assisted-installer API, for racks without a hub and for tests.
//!
//! It hands out live ISOs with a discovery config in them, takes registrations, asks hosts for inventory and
//! connectivity, judges them, installs them, and follows them until they have booted from their disks. What it does not
//! do it refuses with 501: it never pretends.
//!
//! # With and without a control plane
//!
//! This service makes no role configs. An operator who has them, as `openshift-install` makes them, lays them into a
//! directory ([`cluster_files`]): then one master is elected to carry the temporary control plane, and gets
//! `bootstrap.ign` to do so; every host's config is its role's with its own part merged in; and the cluster's own
//! controller reports `Joined` and `Done`.
//!
//! Without them there is no control plane to bring up. Hosts get a minimal config of their own instead: a name, the user
//! `core` with the cluster's key, a pointer to `/landfall/config/{role}`, and a beacon. No host is elected, and the install
//! request leaves `control_plane_count` out. A host that follows its pointer after the reboot moves to `Configuring`,
//! and reports `Joined` and `Done` itself.
//!
//! Either way, when all hosts are installed, so is the cluster. But where a controller has told of a finalizing stage or of an
//! operator, or is awaited (`--await-controller`), it must also have uploaded the ingress certificate and told that the
//! operators work.
//!
//! # Layout
//!
//! [`auth`] tells who asks. [`state`] and [`check`] are pure: facts in, next state or finding out. [`pass`] applies them to
//! records, [`store`] keeps the records, [`handlers`] are the endpoints, [`http`] and [`server`] carry them. [`page`] shows all
//! this to people, [`control`] is the command line that talks to such a service, [`rendezvous`] installs a rack from within.

pub mod addresses;
pub mod auth;
pub mod check;
pub mod cli;
pub mod cluster_files;
pub mod control;
pub mod course;
pub mod dhcp_vips;
pub mod documents;
pub mod effects;
pub mod encryption;
pub mod endpoints;
pub mod events;
pub mod features;
pub mod find;
pub mod generated_manifests;
pub mod handlers;
pub mod http;
pub mod ignition_endpoint;
pub mod images;
pub mod infra_env;
pub mod install_config;
pub mod instructions;
pub mod kubeconfig;
mod log_archive;
pub mod logs;
pub mod machine_networks;
pub mod manifest_files;
pub mod media;
pub mod metrics;
pub mod model;
pub mod net;
pub mod netboot;
pub mod openapi;
pub mod operators;
pub mod page;
pub mod pass;
pub mod payload;
mod refresh;
pub mod releases;
pub mod rendezvous;
pub mod retention;
pub mod roles;
mod routes;
pub mod rules;
pub mod server;
pub mod service;
pub mod settings;
pub mod state;
pub mod steps;
pub mod store;
pub mod text;
pub mod unregistered;
pub mod view;
