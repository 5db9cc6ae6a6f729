//! `landfall serve`: a small service that speaks the assisted-installer API, for racks without a hub and for tests.
//!
//! It serves live ISOs with a discovery config, accepts registrations, asks hosts for inventory and connectivity, validates
//! them, installs them, and follows them until they have booted from their disks. It refuses with 501 what it does not
//! implement.
//!
//! # With and without a control plane
//!
//! Role configs come from `openshift-install`, which an operator runs beforehand ([`cluster_files`]), or the service for each
//! cluster (`preparing`): then one master is elected to carry the temporary control plane, and gets `bootstrap.ign` for it;
//! every host's config is its role's with its own part merged in; and the cluster's controller reports `Joined` and
//! `Done`.
//!
//! Without them there is no control plane. Each host gets a minimal config instead: a name, the user
//! `core` with the cluster's key, a pointer to `/landfall/config/{role}`, and a beacon. No host is elected, and the install
//! request leaves `control_plane_count` out. A host that follows its pointer after the reboot moves to `Configuring`,
//! and reports `Joined` and `Done` itself.
//!
//! Either way, when all hosts are installed, so is the cluster. But if a controller has reported a finalizing stage or an
//! operator, or is awaited (`--await-controller`), it must also have uploaded the ingress certificate and reported that
//! the operators work.
//!
//! # Layout
//!
//! [`auth`] authenticates callers. [`state`] and [`check`] are pure: facts in, next state or finding out. [`pass`] applies them to
//! records, [`store`] holds the records, [`endpoints`] lists what is served, `handlers` and `steps` implement each endpoint and each
//! step of a host, [`http`] and [`server`] carry them. `page` is the web page, [`control`] the command line for such a service, [`rendezvous`]
//! installs a rack from within, and [`up`] does all of it with one command.

mod addresses;
pub mod attest;
pub mod auth;
mod boot_media;
mod certify;
pub mod check;
pub mod cli;
pub mod cluster_files;
pub mod control;
mod course;
mod dhcp_vips;
mod disconnected;
pub mod disk_images;
mod documents;
mod effects;
mod encryption;
pub mod endpoints;
mod events;
pub use events::limits as event_limits;
mod features;
mod find;
mod generated_manifests;
mod handlers;
pub mod http;
mod ignition_endpoint;
mod images;
mod infra_env;
mod install_config;
pub mod instructions;
pub mod iso_store;
mod kubeconfig;
mod log_archive;
mod logs;
mod machine_networks;
mod manifest_files;
pub mod media;
mod media_probe;
mod metrics;
pub mod mirrors;
pub mod model;
mod net;
mod netboot;
mod node_addresses;
mod node_settings;
pub mod openapi;
mod operators;
mod page;
pub mod pass;
pub mod payload;
pub mod planned;
pub mod preparing;
mod refresh;
mod registries;
pub mod releases;
pub mod rendezvous;
pub mod retention;
mod roles;
mod routes;
mod rules;
pub mod server;
pub mod service;
mod settings;
pub mod state;
mod steps;
pub mod store;
mod text;
mod unregistered;
pub mod up;
mod view;
