//! `landfall serve`: a small service that speaks the assisted-installer API, for racks without a hub and for tests.
//!
//! It hands out live ISOs with a discovery config in them, takes registrations, asks hosts for inventory and
//! connectivity, judges them, installs them, and follows them until they have booted from their disks. What it does not
//! do it refuses with 501: it never pretends.
//!
//! # Without a control plane
//!
//! Nobody gives this service role configs, so it brings up no Kubernetes control plane. Hosts get a minimal config of
//! their own instead: a name, the user `core` with the cluster's key, a pointer to `/landfall/config/{role}`, and a
//! beacon. No host is elected to carry a temporary control plane: roles are `master` and `worker` only, and the install
//! request leaves `control_plane_count` out. A host that follows its pointer after the reboot moves to `Configuring`,
//! and reports `Joined` and `Done` itself; when all hosts are installed, so is the cluster.
//!
//! # Layout
//!
//! [`state`] and [`check`] are pure: facts in, next state or finding out. [`pass`] applies them to records, [`store`]
//! keeps the records, [`handlers`] are the endpoints, and [`server`] is all there is of HTTP.

pub mod check;
pub mod cli;
pub mod documents;
pub mod events;
pub mod handlers;
pub mod http;
pub mod images;
pub mod instructions;
pub mod logs;
pub mod media;
pub mod model;
pub mod net;
pub mod pass;
pub mod roles;
pub mod server;
pub mod service;
pub mod state;
pub mod store;
pub mod view;
