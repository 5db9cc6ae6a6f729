//! Carrying out a service's request.

use super::Install;
use crate::{
    flow::{self, News, Pace},
    host::LiveHost,
    running::{Stopped, lock, stop},
};
use api::{Document, InstallDocument};
use assist::INSTALLATION_LOCK;
use logs::{Places, Wanted};
use std::{path::Path, process::ExitCode, time::Duration};

/// What the service and its people call the installation (docs/compatibility.md#stop-installation).
const NAME: &str = "assisted-installer";
/// A disk is brought in order within it.
const STOP_GRACE: Duration = Duration::from_secs(30);
/// What a container engine answers for a name in use; the service knows it and lets it pass.
const EXIT_ALREADY_RUNNING: u8 = 125;

impl Install {
    pub(super) fn run_stop(&self) -> anyhow::Result<ExitCode> {
        let stopped = stop(Path::new(INSTALLATION_LOCK), STOP_GRACE)?;
        match stopped {
            Stopped::Nothing => tracing::info!("no installation is running"),
            Stopped::Complete => {
                tracing::info!("the installation is complete and the host is about to reboot: nothing to stop")
            }
            Stopped::Ended { pid } => tracing::info!(pid, "stopped the installation"),
            Stopped::Killed { pid } => tracing::warn!(pid, "killed the installation: it did not end when asked to"),
        }
        match stopped {
            Stopped::Ended { .. } | Stopped::Killed { .. } => {
                self.print(&serde_json::json!({"stopped": NAME}), &format!("{NAME}\n"))
            }
            Stopped::Nothing | Stopped::Complete => Ok(ExitCode::SUCCESS),
        }
    }

    pub(super) fn run_request(&self, path: &Path) -> anyhow::Result<ExitCode> {
        self.run_document(&InstallDocument::read(path)?)
    }

    /// A role's flow, or its plan.
    pub(super) fn run_document(&self, document: &InstallDocument) -> anyhow::Result<ExitCode> {
        if self.dry_run {
            let plan = flow::planned(document, Path::new("/"))?;
            return self.print(&plan, &plan.to_string());
        }
        let Some(lock) = lock(Path::new(INSTALLATION_LOCK))? else {
            tracing::error!(
                "another installation is running on this host (in the service's words: the container name \
                 \"assisted-installer\" is already in use)"
            );
            return Ok(ExitCode::from(EXIT_ALREADY_RUNNING));
        };
        let cancel = self.cancel_on_signals()?;
        let host = LiveHost {
            http: document.image_http(),
            environment: document.environment(),
            logs: Some(logs(document)),
            allow_reboot: document.reboot,
        };
        let mut display = self.display();
        let result = flow::run(document, &host, &cancel, Pace::default(), &mut |news| match news {
            News::Stage(progress) => display.stage(progress),
            News::Image(event) => display.show(event),
        });
        display.close();
        result?;
        if document.reboot {
            // Whatever the service asks for until the reboot comes, the new disk is not touched again: the process that
            // waits to reboot shares the lock, which dropping it here would release.
            std::mem::forget(lock);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Where the host's logs are sent, and for which host.
fn logs(document: &InstallDocument) -> logs::Settings {
    logs::Settings {
        client: document.service.client_config(),
        cluster_id: document.request.cluster_id,
        infra_env_id: Some(document.request.infra_env_id),
        wanted: Wanted {
            host_id: document.request.host_id,
            since: String::new(),
            bootstrap: false,
            installer_gather: false,
            masters: Vec::new(),
        },
        keep: false,
        places: Places::default(),
    }
}
