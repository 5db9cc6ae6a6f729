//! Takes a program out of a release image by `oc adm release extract`, where the operator wants that.

use super::{error::ExtractError, native::Wanted};
use kernel::outputs::{Keep, Outputs};
use netcheck::image::registries::Registries;
use serde_json::{Value, json};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tempfile::{NamedTempFile, TempDir};

/// Enough for what it says at its end.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// Between the signals that end it, and for its pipes to close.
const GRACE: Duration = Duration::from_secs(3);
const HELP_TIME: Duration = Duration::from_secs(60);
const EXTRACT: [&str; 3] = ["adm", "release", "extract"];

/// How the command is run.
#[derive(Clone, Debug)]
pub(super) struct Oc {
    pub program: PathBuf,
    /// By source.
    pub mirrors: Vec<(String, Vec<String>)>,
    /// Stands in for the release image where there are no mirrors.
    pub release_mirror: Option<String>,
    pub time: Duration,
}

/// The service's mirrors of images by digest.
pub(super) fn mirrors(registries: &Registries) -> Vec<(String, Vec<String>)> {
    let owned =
        |(source, mirrors): (&str, Vec<&str>)| (source.to_owned(), mirrors.into_iter().map(str::to_owned).collect());
    registries.digest_mirrors().map(owned).collect()
}

impl Oc {
    /// Puts the program at `path`, in whose directory everything happens.
    pub(super) fn extract(
        &self,
        wanted: &Wanted<'_>,
        needed_bytes: u64,
        path: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ExtractError> {
        let store = |source| ExtractError::Store { path: path.to_owned(), source };
        let parent = path.parent().unwrap_or(Path::new("/"));
        let free_bytes = File::open(parent).map(|parent| super::native::free_bytes(&parent)).map_err(store)?;
        if free_bytes < needed_bytes {
            return Err(ExtractError::NoSpace { directory: parent.to_owned(), needed_bytes, free_bytes });
        }
        // Removed with all that is in it, the credentials too.
        let directory = TempDir::with_prefix_in(".oc-", parent).map_err(store)?;
        let to = directory.path().join("to");
        fs::create_dir(&to).map_err(store)?;
        let secret = text_file(directory.path(), "registry-config", wanted.pull_secret.expose()).map_err(store)?;
        let mirrors = self.mirror_file(directory.path(), stop)?;

        let arguments = self.arguments(wanted, &to, mirrors.as_ref(), secret.path());
        self.run(&arguments, self.time, stop)?;
        let file = to.join(wanted.program);
        File::open(&file)
            .map_err(store)
            .and_then(|found| Ok(super::elf::check(&found, netcheck::image::manifest::own_architecture())?))?;
        fs::rename(&file, path).map_err(store)
    }

    fn arguments(
        &self,
        wanted: &Wanted<'_>,
        to: &Path,
        mirrors: Option<&(&'static str, NamedTempFile)>,
        secret: &Path,
    ) -> Vec<OsString> {
        let option = |name: &str, value: &OsStr| {
            let mut option = OsString::from(format!("--{name}="));
            option.push(value);
            option
        };
        let mirror = self.release_mirror.as_deref().filter(|_| mirrors.is_none());
        let mut arguments: Vec<OsString> = EXTRACT.map(OsString::from).into();
        arguments.push(option("command", wanted.program.as_ref()));
        arguments.push(option("to", to.as_os_str()));
        arguments.push(format!("--insecure={}", mirror.is_some()).into());
        arguments.extend(mirrors.map(|(name, file)| option(name, file.path().as_os_str())));
        arguments.push(mirror.unwrap_or(wanted.image).into());
        arguments.push(option("registry-config", secret.as_os_str()));
        arguments
    }

    /// The option for mirrors that this `oc` has, and the file for it.
    fn mirror_file(
        &self,
        directory: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<(&'static str, NamedTempFile)>, ExtractError> {
        if self.mirrors.is_empty() {
            return Ok(None);
        }
        let mut arguments: Vec<OsString> = EXTRACT.map(OsString::from).into();
        arguments.push("--help".into());
        let help = self.run(&arguments, HELP_TIME, stop)?;
        let (option, text) = if help.contains("idms-file") {
            ("idms-file", digest_mirror_set(&self.mirrors))
        } else {
            ("icsp-file", content_source_policy(&self.mirrors))
        };
        let file = text_file(directory, option, &text.to_string());
        let file = file.map_err(|source| ExtractError::Store { path: directory.to_owned(), source })?;
        Ok(Some((option, file)))
    }

    /// Runs it without a shell and without input; gives its standard output.
    fn run(&self, arguments: &[OsString], time: Duration, stop: &dyn Fn() -> bool) -> Result<String, ExtractError> {
        let text = || {
            let parts = [self.program.as_os_str()].into_iter().chain(arguments.iter().map(OsString::as_os_str));
            parts.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
        };
        let start_error = |source| ExtractError::Start { program: self.program.clone(), source };
        let mut command = Command::new(&self.program);
        command.args(arguments);
        let (mut outputs, ends) = Outputs::apart([Keep::End(MAX_OUTPUT_BYTES); 2]).map_err(start_error)?;
        let mut child = assist::start(&command, assist::Place::default(), ends).map_err(start_error)?;
        let start = Instant::now();
        let ended = outputs.follow(GRACE, || child.try_wait(), |_| stop() || start.elapsed() >= time);
        let Some(status) = ended.map_err(start_error)? else {
            child.end(true, GRACE).map_err(start_error)?;
            return Err(if stop() {
                ExtractError::Cancelled
            } else {
                ExtractError::Slow { command: text(), limit_s: time.as_secs() }
            });
        };
        let [stdout, stderr] = outputs.texts();
        if status.success() {
            return Ok(stdout);
        }
        // -1 is what a program has that a signal ended.
        Err(ExtractError::Command { command: text(), code: status.code().unwrap_or(-1), stdout, stderr })
    }
}

fn text_file(directory: &Path, prefix: &str, text: &str) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::with_prefix_in(prefix, directory)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

fn listed(mirrors: &[(String, Vec<String>)]) -> Vec<Value> {
    mirrors.iter().map(|(source, mirrors)| json!({"source": source, "mirrors": mirrors})).collect()
}

/// JSON is YAML.
fn digest_mirror_set(mirrors: &[(String, Vec<String>)]) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ImageDigestMirrorSet",
        "metadata": {"name": "image-mirror-set"},
        "spec": {"imageDigestMirrors": listed(mirrors)},
    })
}

fn content_source_policy(mirrors: &[(String, Vec<String>)]) -> Value {
    json!({
        "apiVersion": "operator.openshift.io/v1alpha1",
        "kind": "ImageContentSourcePolicy",
        "metadata": {"name": "image-policy"},
        "spec": {"repositoryDigestMirrors": listed(mirrors)},
    })
}

#[cfg(test)]
#[path = "oc_tests.rs"]
mod tests;
