//! Actions from the page: each asks for confirmation, and runs only from that form.

use super::answer::{Shared, answer, guarded};
use super::html::{line, page};
use crate::find::find_cluster;
use crate::handlers::{Handler, clusters};
use crate::http::call::call_of;
use crate::http::work::{blocking, read_body};
use crate::http::{Call, Refusal};
use crate::model::HostRecord;
use crate::service::Service;
use crate::state::ClusterState;
use api::ClusterId;
use axum::{
    extract::{RawPathParams, Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use kernel::order;
use maud::{Markup, display, html};
use sha2::{Digest, Sha256};
use std::sync::OnceLock;
use uuid::Uuid;

/// A form has only its token.
const MAX_FORM_BYTES: usize = 4096;

/// What can be done with a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Install,
    Cancel,
    /// Back to the state before the installation.
    Reset,
}

impl Action {
    pub(super) const ALL: [Self; 3] = [Self::Install, Self::Cancel, Self::Reset];

    fn parse(text: &str) -> Result<Self, Refusal> {
        let found = Self::ALL.into_iter().find(|action| action.path() == text);
        found.ok_or_else(|| Refusal::not_found("no such action: use install, cancel or reset"))
    }

    fn path(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Cancel => "cancel",
            Self::Reset => "reset",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Install => "Install",
            Self::Cancel => "Cancel the installation",
            Self::Reset => "Reset",
        }
    }

    /// What it does, shown with the confirmation.
    fn consequence(self) -> &'static str {
        match self {
            Self::Install => "Everything on the installation disks of its hosts will be overwritten.",
            Self::Cancel => {
                "Disks that are being written stay half-written and do not boot. You can reset the cluster afterwards."
            }
            Self::Reset => {
                "Its hosts must boot the discovery image again. This cluster loses what is installed on them."
            }
        }
    }

    /// Whether to offer it; the handler decides.
    pub(super) fn fits(self, state: ClusterState) -> bool {
        let under_way = matches!(
            state.as_str(),
            "preparing-for-installation" | "installing" | "installing-pending-user-action" | "finalizing"
        );
        match self {
            Self::Install => state == ClusterState::Ready,
            Self::Cancel => under_way,
            Self::Reset => under_way || matches!(state, ClusterState::Error | ClusterState::Cancelled),
        }
    }

    fn handler(self) -> Handler {
        match self {
            Self::Install => clusters::install,
            Self::Cancel => clusters::cancel,
            Self::Reset => clusters::reset,
        }
    }
}

/// Links to the confirmation.
pub(super) fn link(action: Action, cluster: ClusterId) -> Markup {
    let path = action.path();
    html! { a.button.(path) href={ "/ui/clusters/" (display(cluster)) "/" (path) } { (action.title()) "…" } " " }
}

/// Only a reader of our pages has it: other sites can't read them. It is valid until this process ends.
fn token(action: Action, cluster: ClusterId) -> String {
    static KEY: OnceLock<[Uuid; 2]> = OnceLock::new();
    let key = KEY.get_or_init(|| [Uuid::new_v4(), Uuid::new_v4()]);
    let mut hash = Sha256::new();
    key.iter().for_each(|part| hash.update(part.as_bytes()));
    hash.update(action.path());
    hash.update(cluster.0.as_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// GET /ui/clusters/{id}/{action}: asks for confirmation.
pub(super) fn ask(service: &Service, call: &Call) -> Result<Markup, Refusal> {
    let (id, action) = (call.cluster_id()?, Action::parse(call.path("action"))?);
    let model = service.store.model();
    let record = find_cluster(&model, id)?;
    let mut hosts = model.hosts_of_cluster(id);
    order::sort_by_key(&mut hosts, |host| super::host::name(host));
    let in_words = |host: &HostRecord| {
        let disk = match host.host.installation_disk_path.as_str() {
            "" => String::new(),
            path => format!(", disk {path}"),
        };
        format!("{}: {}{disk}", super::host::name(host), host.state)
    };
    let name = &record.cluster.name;
    let back = format!("/ui/clusters/{id}");
    let main = html! {
        h1 { (action.title()) ": " (line(name)) "?" }
        p { strong { (action.consequence()) } }
        p { "The cluster is " (line(record.state.as_str())) ". Its hosts:" }
        ul { @for host in &hosts { li { (line(&in_words(host))) } } }
        form method="post" class="actions" {
            input type="hidden" name="token" value=(token(action, id));
            button.(action.path()) { (action.title()) }
            " "
            a.button href=(back) { "No, go back" }
        }
    };
    let cluster = format!("Cluster {name}");
    Ok(page(action.title(), &[("Overview", "/"), (&cluster, &back)], main, None))
}

/// POST /ui/clusters/{id}/{action}: does it, and redirects to the cluster. Requests from another site's page are refused
/// earlier.
pub(super) async fn act(State(service): Shared, params: RawPathParams, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let done = async {
        let call = call_of(&params, &parts)?;
        let (id, action) = (call.cluster_id()?, Action::parse(call.path("action"))?);
        let (form, _) = read_body(&service.gates, &service.settings.limits, body, MAX_FORM_BYTES).await?;
        if form != format!("token={}", token(action, id)).as_bytes() {
            let reason = "this request is not from the confirmation page, or the service was restarted since: go back and try again";
            return Err(Refusal::Request(StatusCode::FORBIDDEN, reason.to_owned()));
        }
        blocking(move || (action.handler())(&service, &call)).await?;
        Ok(id)
    };
    match done.await {
        Ok(id) => {
            let mut response = guarded(StatusCode::SEE_OTHER.into_response());
            let back = HeaderValue::try_from(format!("/ui/clusters/{id}"));
            response.headers_mut().extend(back.ok().map(|back| (header::LOCATION, back)));
            response
        }
        Err(refusal) => answer(Err(refusal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_action_of_one_cluster() {
        let (one, other) = (ClusterId::random(), ClusterId::random());
        assert_eq!(token(Action::Install, one), token(Action::Install, one));
        assert_ne!(token(Action::Install, one), token(Action::Reset, one));
        assert_ne!(token(Action::Install, one), token(Action::Install, other));
    }
}
