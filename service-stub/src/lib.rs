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
//! [`auth`] says who asks. [`state`] and [`check`] are pure: facts in, next state or finding out. [`pass`] applies them to
//! records, [`store`] holds the records, [`endpoints`] lists what is served, `handlers` and `steps` say what each endpoint and each step
//! of a host does, [`http`] and [`server`] carry them. `page` shows all
//! this to people, [`control`] is the command line that talks to such a service, [`rendezvous`] installs a rack from within, [`up`] does all
//! of it with one command.

mod addresses;
pub mod auth;
pub mod check;
pub mod cli;
pub mod cluster_files;
pub mod control;
mod course;
mod dhcp_vips;
mod documents;
mod effects;
mod encryption;
pub mod endpoints;
mod events;
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
mod kubeconfig;
mod log_archive;
mod logs;
mod machine_networks;
mod manifest_files;
pub mod media;
mod metrics;
pub mod model;
mod net;
mod netboot;
pub mod openapi;
mod operators;
mod page;
pub mod pass;
pub mod payload;
mod refresh;
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
