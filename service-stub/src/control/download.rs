//! Downloads files from the service to standard output, or atomically to a file.

use super::{Console, Session};
use anyhow::Context;
use api::endpoint::Target;
use indicatif::{ProgressBar, ProgressStyle};
use kernel::terminal::{BAR, COUNTER};
use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// A longer reason is cut.
const MAX_REASON_BYTES: u64 = 4096;

/// Downloads a file of the API; to `console` without a name.
pub(crate) fn file(session: &Session, console: &mut Console, target: &Target, to: Option<&Path>) -> anyhow::Result<()> {
    into(console, to, true, |out, progress| Ok(session.client.download(target, out, progress)?))
}

/// The same to a file that must not exist: another attempt's logs are not replaced.
pub(crate) fn new_file(session: &Session, console: &mut Console, target: &Target, to: &Path) -> anyhow::Result<()> {
    into(console, Some(to), false, |out, progress| Ok(session.client.download(target, out, progress)?))
}

/// Downloads a presigned URL, without the token. If nothing answers there, it is the address for hosts only, such as that of a virtual
/// machine's gateway: then the same file is asked for where this client reaches the service.
pub(crate) fn url(session: &Session, console: &mut Console, url: &str, to: Option<&Path>) -> anyhow::Result<()> {
    let shown = api::http::public_url(url);
    into(console, to, true, |out, progress| {
        let agent = api::http::agent(&session.http)?;
        // The error of a request may show its URL, which may hold a token.
        let mut answer = agent.get(url).call();
        if answer.is_err()
            && let Some(here) = at_address_of(&session.url, url)
            && let Ok(other) = agent.get(&here).call()
            && other.status().is_success()
        {
            answer = Ok(other);
        }
        let mut response = answer.map_err(|error| match error {
            ureq::Error::Io(error) => anyhow::Error::from(error).context(format!("no reply from {shown}")),
            _ => anyhow::anyhow!("no reply from {shown}"),
        })?;
        let status = response.status();
        if !status.is_success() {
            let mut reason = Vec::new();
            response.body_mut().as_reader().take(MAX_REASON_BYTES).read_to_end(&mut reason)?;
            anyhow::bail!("the service refuses: {} ({} to GET {shown})", api::refusal_text(&reason), status.as_u16());
        }
        let total = response.body().content_length();
        let reader = response.body_mut().with_config().limit(u64::MAX).reader();
        Ok(api::copy(&shown, reader, total, out, progress)?)
    })
}

/// The path of `url` at the scheme, host and port of `service`; `None` if it is there already.
fn at_address_of(service: &str, url: &str) -> Option<String> {
    let origin = |url: &str| {
        let host = url.find("://")? + 3;
        Some(url[host..].find('/').map_or(url.len(), |slash| host + slash))
    };
    let (here, there) = (&service[..origin(service)?], &url[..origin(url)?]);
    (here != there).then(|| format!("{here}{}", &url[there.len()..]))
}

type Fetch<'a> = dyn FnMut(&mut dyn Write, &mut dyn FnMut(u64, Option<u64>)) -> anyhow::Result<()> + 'a;

fn into(
    console: &mut Console,
    to: Option<&Path>,
    may_replace: bool,
    mut fetch: impl FnMut(&mut dyn Write, &mut dyn FnMut(u64, Option<u64>)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let fetch: &mut Fetch = &mut fetch;
    let Some(to) = to.filter(|to| to.as_os_str() != "-") else {
        return fetch(console.out, &mut |_, _| {});
    };
    let exists = || format!("{} exists: remove it, or give another name with --output", to.display());
    anyhow::ensure!(may_replace || to.symlink_metadata().is_err(), exists());
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Mode 0600: there may be credentials in it.
    let made = tempfile::Builder::new().prefix(".landfall-").suffix(".part").tempfile_in(directory);
    let mut file = made.with_context(|| format!("cannot create a file in {}", directory.display()))?;
    let bar = bar();
    let gone: PathBuf = file.path().to_owned();
    let end = super::wait::on_interrupt({
        let bar = bar.clone();
        move || {
            bar.finish_and_clear();
            drop(std::fs::remove_file(&gone));
        }
    })?;
    let mut out = io::BufWriter::new(file.as_file_mut());
    let fetched = fetch(&mut out, &mut |bytes, total| {
        if let Some(total) = total.filter(|total| bar.length() != Some(*total)) {
            bar.set_length(total);
            lay_out(&bar, BAR);
        }
        bar.set_position(bytes);
    });
    bar.finish_and_clear();
    fetched?;
    out.flush().with_context(|| format!("cannot write {}", to.display()))?;
    drop(out);
    let bytes = file.as_file().metadata()?.len();
    let persisted = if may_replace { file.persist(to) } else { file.persist_noclobber(to) };
    persisted.with_context(|| format!("cannot write {}", to.display()))?;
    drop(end);
    console.say(format!("{}: {}", to.display(), kernel::units::binary(bytes)))
}

/// Hidden unless standard error is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::no_length().with_message("downloading");
    lay_out(&bar, COUNTER);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn lay_out(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_reach_elsewhere_is_asked_for_at_the_clients_address() {
        let iso = "http://10.0.2.2:8090/byid/1/full.iso?api_key=x";
        assert_eq!(
            at_address_of("http://127.0.0.1:8090/", iso).as_deref(),
            Some("http://127.0.0.1:8090/byid/1/full.iso?api_key=x")
        );
        assert_eq!(at_address_of("http://10.0.2.2:8090", iso), None);
        assert_eq!(at_address_of("127.0.0.1:8090", iso), None);
    }
}
