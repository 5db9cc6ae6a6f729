//! `stop-installation`: ends what is left of an installation.

use super::kind::Kind;
use crate::state::HostState;
use api::kinds;

pub(crate) fn kind() -> Kind {
    Kind::new::<kinds::StopInstallation>(
        |state, _| matches!(state, HostState::Error | HostState::Cancelled),
        |_| Some(Vec::new()),
    )
}
