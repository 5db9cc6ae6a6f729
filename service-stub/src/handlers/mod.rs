//! What each endpoint does. Handlers are plain blocking functions: the server runs them off its async threads.

pub(crate) mod agent;
pub(crate) mod catalogues;
mod cluster_networks;
pub(crate) mod cluster_settings;
pub(crate) mod clusters;
pub(crate) mod controller;
pub(crate) mod counts;
pub(crate) mod day2;
pub(crate) mod digests;
pub(crate) mod downloads;
pub(crate) mod events;
pub(crate) mod host_settings;
pub(crate) mod hosts;
pub(crate) mod infra_env_settings;
pub(crate) mod infra_envs;
pub(crate) mod install_config;
pub(crate) mod lifecycle;
mod lists;
pub(crate) mod manifests;
pub(crate) mod models;
pub(crate) mod new_cluster;
pub(crate) mod operators;
pub(crate) mod plans;
pub(crate) mod presigned;
pub(crate) mod replies;
#[cfg(test)]
mod settings_tests;
pub(crate) mod support_levels;
pub(crate) mod validations;

use crate::http::{Answer, Call, Refusal};
use crate::service::Service;

pub(crate) type Handler = fn(&Service, &Call) -> Result<Answer, Refusal>;
