//! What each endpoint does. Handlers are plain blocking functions: the server runs them off its async threads.

pub mod agent;
pub mod catalogues;
mod cluster_networks;
pub mod cluster_settings;
pub mod clusters;
pub mod controller;
pub mod counts;
pub mod day2;
pub mod downloads;
pub mod events;
pub mod host_settings;
pub mod hosts;
pub mod infra_env_settings;
pub mod infra_envs;
pub mod install_config;
pub mod lifecycle;
mod lists;
pub mod manifests;
pub mod models;
pub mod new_cluster;
pub mod operators;
pub mod presigned;
pub mod replies;
#[cfg(test)]
mod settings_tests;
pub mod support_levels;
pub mod validations;

use crate::http::{Answer, Call, Refusal};
use crate::service::Service;

pub type Handler = fn(&Service, &Call) -> Result<Answer, Refusal>;
