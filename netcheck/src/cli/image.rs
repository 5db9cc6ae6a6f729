//! `landfall netcheck image`.

use super::{print, read_request};
use crate::image::{
    Availability, Findings, ImageError, ImageOptions, Podman, Progress, Store, auth::Credentials, check,
    registries::Registries, table,
};
use anyhow::{Context, bail};
use api::ContainerImageAvailabilityRequest;
use std::{
    env,
    io::{IsTerminal, Write, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
};

const REGISTRIES_CONF: &str = "/etc/containers/registries.conf";
/// Exit status when an image is not available (docs/compatibility.md#container-image-availability).
const UNAVAILABLE: u8 = 2;

/// Fetch container images as an installation would: is each available, from which registry or mirror, and how fast?
///
/// Every byte of each image is fetched and its digest verified; nothing is stored. The rate counts the bytes on the wire.
/// Mirrors, blocked and insecure registries come from registries.conf, credentials from auth.json or a pull secret. For
/// each place that fails the table says how far the fetch got (name, connect, certificate, auth, manifest, layer), what was
/// seen and what to do.
///
/// With --store the host's podman pulls and stores the images instead, so that the installation finds them there. A step of
/// the service does so if the host has podman (--store=auto is the default with --request).
///
/// The exit status is 0 if all images are available, 2 if one of them is not, 1 if the check did not take place.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = r#"Credentials are read from the file of --authfile, else from that of $REGISTRY_AUTH_FILE, else from each of
  $XDG_RUNTIME_DIR/containers/auth.json or /run/containers/0/auth.json   where podman login writes
  $XDG_CONFIG_HOME/containers/auth.json or ~/.config/containers/auth.json
  ~/.docker/config.json                                                  the pull secret on a discovery host
  /var/lib/kubelet/config.json                                           the pull secret on an installed node
and the first with an entry for the registry is used, in podman's order; only the last is not read by podman itself.
CA certificates: the system's, --ca, and /etc/containers/certs.d/HOST:PORT/*.crt or /etc/docker/certs.d/HOST:PORT/*.crt.

The request is what the service sends with a container-image-availability step, for example:
  {"images":["quay.io/openshift-release-dev/ocp-release:4.22.9-x86_64"],
   "timeout":960}

Examples:
  landfall netcheck image \
    quay.io/edge-infrastructure/assisted-installer:latest
  landfall netcheck image --authfile pull-secret.json \
    --ca lab.crt registry.lab:5000/ocp/release:4.22.9
  landfall netcheck image --request images.json --json"#
)]
pub(super) struct Image {
    /// Images: [HOST[:PORT]/]PATH[:TAG][@DIGEST]
    #[arg(value_name = "REF", required_unless_present = "request", conflicts_with = "request")]
    images: Vec<String>,
    /// File with the images, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Time for all images together, seconds; overrides the request's
    #[arg(long, value_name = "N")]
    timeout_s: Option<u32>,
    /// Read credentials only from this file
    #[arg(long, value_name = "FILE")]
    authfile: Option<PathBuf>,
    /// Use instead of /etc/containers/registries.conf or $CONTAINERS_REGISTRIES_CONF; FILE.d/*.conf is read too (not with
    /// podman)
    #[arg(long, value_name = "FILE")]
    registries_conf: Option<PathBuf>,
    /// PEM bundle to trust for every registry, in addition to the system's (may be given several times; not with podman)
    #[arg(long, value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// Which one of a multi-architecture image; by default this machine's (not with podman)
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
    /// Whether podman pulls and stores the images [default: auto with --request, else never]
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    store: Option<When>,
    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// If the host has podman
    Auto,
    /// Require podman
    Always,
    /// Fetch natively, store nothing
    Never,
}

impl Image {
    /// One image, fetched as a step does: into the store of a podman that is there, else natively.
    pub(super) fn one(name: &str, timeout_s: u32) -> Self {
        Self {
            images: vec![name.to_owned()],
            request: None,
            timeout_s: Some(timeout_s),
            authfile: None,
            registries_conf: None,
            ca: Vec::new(),
            architecture: None,
            store: Some(When::Auto),
            json: true,
        }
    }

    /// Whether podman has pulled it; `None` without podman.
    pub(super) fn pull(&self) -> anyhow::Result<Option<bool>> {
        let Some(podman) = self.podman(Path::new(Podman::PATH))? else { return Ok(None) };
        let findings = check(&self.read()?, &ImageOptions::default(), Some(&podman), &|_| ())?;
        log(&findings);
        Ok(Some(findings.all_available()))
    }

    /// Whether it can be had, all of it.
    pub(super) fn can_be_had(&self) -> anyhow::Result<bool> {
        let findings = check(&self.read()?, &self.options()?, None, &|_| ())?;
        log(&findings);
        Ok(findings.all_available())
    }

    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let request = self.read()?;
        let podman = self.podman(Path::new(Podman::PATH))?;
        let options = match podman {
            Some(_) => ImageOptions::default(),
            None => self.options()?,
        };
        let line = ProgressLine { on_terminal: stderr().is_terminal() };
        let store = podman.as_ref().map(|podman| podman as &dyn Store);
        let findings = check(&request, &options, store, &|progress| line.show(progress))?;
        line.clear();
        log(&findings);
        let certificates = options.certs_directories.first().map(PathBuf::as_path).unwrap_or(Path::new("/"));
        print(self.json, &findings.report(), || table::render(&findings, certificates))?;
        Ok(if findings.all_available() { ExitCode::SUCCESS } else { ExitCode::from(UNAVAILABLE) })
    }

    fn read(&self) -> anyhow::Result<ContainerImageAvailabilityRequest> {
        let mut request = match &self.request {
            Some(path) => serde_json::from_slice(&read_request(path)?)
                .context("the request is not an image request: expected {\"images\":[…],\"timeout\":seconds}")?,
            None => ContainerImageAvailabilityRequest { images: self.images.clone(), timeout: None },
        };
        if let Some(timeout_s) = self.timeout_s {
            request.timeout = Some(timeout_s.into());
        }
        Ok(request)
    }

    fn podman(&self, program: &Path) -> anyhow::Result<Option<Podman>> {
        let when = self.store.unwrap_or(if self.request.is_some() { When::Auto } else { When::Never });
        let podman = match (when, Podman::find(program, self.authfile.as_deref())) {
            (When::Never, _) | (When::Auto, None) => return Ok(None),
            (When::Always, None) => bail!("{} is missing: images can't be stored", program.display()),
            (When::Auto | When::Always, Some(podman)) => podman,
        };
        if !self.ca.is_empty() || self.registries_conf.is_some() || self.architecture.is_some() {
            bail!(
                "--ca, --registries-conf and --architecture do not apply to podman: add --store=never, or configure the host"
            );
        }
        Ok(Some(podman))
    }

    /// Credentials, registries and certificates of this host.
    pub(super) fn options(&self) -> anyhow::Result<ImageOptions> {
        let from_environment = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let credentials = match self.authfile.clone().or_else(|| from_environment("REGISTRY_AUTH_FILE")) {
            Some(path) => Credentials::load(&path)?,
            None => {
                let home = from_environment("HOME").unwrap_or_else(|| "/root".into());
                let configuration = from_environment("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
                let runtime = from_environment("XDG_RUNTIME_DIR").map(|path| path.join("containers/auth.json"));
                Credentials::load_any(&[
                    runtime.unwrap_or_else(|| "/run/containers/0/auth.json".into()),
                    configuration.join("containers/auth.json"),
                    home.join(".docker/config.json"),
                    "/var/lib/kubelet/config.json".into(),
                ])
            }
        };
        let named = self.registries_conf.clone().or_else(|| from_environment("CONTAINERS_REGISTRIES_CONF"));
        let registries = match &named {
            Some(path) => Registries::load(path, true)?,
            None => Registries::load(Path::new(REGISTRIES_CONF), false)?,
        };
        let mut options =
            ImageOptions { credentials, registries, ca_certs: self.ca.clone(), ..ImageOptions::default() };
        if let Some(architecture) = &self.architecture {
            options.architecture.clone_from(architecture);
        }
        Ok(options)
    }
}

/// What went wrong, for the log of a step.
fn log(findings: &Findings) {
    for finding in &findings.images {
        match &finding.outcome {
            Ok(Availability::Fetched { attempts, .. }) | Err(ImageError::Nowhere(attempts)) => {
                for attempt in attempts {
                    tracing::warn!(image = ?finding.name, "{}", table::explain(attempt));
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(image = ?finding.name, "{}", table::chain(error)),
        }
    }
}

/// One line on a terminal, written over and over.
struct ProgressLine {
    on_terminal: bool,
}

impl ProgressLine {
    fn show(&self, progress: &Progress<'_>) {
        if self.on_terminal {
            let numbers = table::numbers(progress.fetched_bytes, progress.elapsed);
            let total = kernel::units::one_decimal(progress.total_bytes);
            // A closed terminal must not stop the check.
            let _ = write!(stderr(), "\r\x1b[K{}: {numbers} of {total}", progress.name.escape_debug());
        }
    }

    fn clear(&self) {
        if self.on_terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        image: Image,
    }

    fn image(arguments: &[&str]) -> Image {
        Program::parse_from(["image"].iter().chain(arguments)).image
    }

    #[test]
    fn podman_pulls_for_a_step_and_for_who_asks() {
        let there = |arguments: &[&str]| image(arguments).podman(Path::new("/dev/null"));
        let absent = |arguments: &[&str]| image(arguments).podman(Path::new("/nonexistent/podman"));
        assert!(there(&["--request", "x"]).unwrap().is_some());
        assert!(there(&["--request", "x", "--store=never"]).unwrap().is_none());
        assert!(there(&["a.b/c"]).unwrap().is_none());
        assert!(there(&["--store", "a.b/c"]).unwrap().is_some());
        assert!(absent(&["--request", "x"]).unwrap().is_none());
        let error = absent(&["--store", "a.b/c"]).unwrap_err().to_string();
        assert_eq!(error, "/nonexistent/podman is missing: images can't be stored");
        assert!(there(&["--request", "x", "--ca", "y"]).is_err());
    }

    #[test]
    fn flags_reach_request_and_options() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let auth = path("auth.json", r#"{"auths": {"a.b": {"auth": "dTpw"}}}"#);
        let conf = path("registries.conf", "unqualified-search-registries = ['a.b']");
        let flags = [
            "--authfile",
            &auth,
            "--registries-conf",
            &conf,
            "--ca",
            "/ca",
            "--architecture",
            "s390x",
            "--timeout-s",
            "7",
            "c",
        ];
        let image = image(&flags);
        let options = image.options().unwrap();
        assert_eq!(options.credentials.find("a.b", "c").unwrap().0.user, "u");
        assert_eq!(options.registries.endpoints(&"c".parse().unwrap()).unwrap()[0].reference.to_string(), "a.b/c");
        assert_eq!((options.ca_certs, options.architecture), (vec!["/ca".into()], "s390x".to_owned()));
        let request = image.read().unwrap();
        assert_eq!(request, ContainerImageAvailabilityRequest { images: vec!["c".into()], timeout: Some(7) });
    }

    #[test]
    fn bad_requests_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("request.json");
        std::fs::write(&path, "{\"images\": 7}").unwrap();
        let text = format!("{:#}", image(&["--request", path.to_str().unwrap()]).run().unwrap_err());
        assert!(
            text.starts_with("the request is not an image request: expected {\"images\":[…],\"timeout\":seconds}: "),
            "{text}"
        );
    }
}
