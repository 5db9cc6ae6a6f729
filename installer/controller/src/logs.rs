//! This controller's log goes to the service: now and then, and at the end with what shows a fault.

use crate::{
    Context,
    clock::{End, Look, until},
    cluster::objects::{self, POD, text},
    config::Config,
    must_gather::{self, Gathered},
};
use api::LogsState;
use flate2::{Compression, write::GzEncoder};
use std::{
    io::{self, Read},
    path::Path,
    time::Duration,
};
use tokio::sync::Mutex;

/// Where this program's own log is, beside standard output.
pub(crate) const OWN_LOG: &str = "/tmp/controller_logs.log";
const INTERVAL: Duration = Duration::from_secs(300);
const FINAL_INTERVAL: Duration = Duration::from_secs(30);
const FINAL_LIMIT: Duration = Duration::from_secs(70 * 60);
pub(crate) const POD_LABEL: &str = "job-name=assisted-installer-controller";
/// Names in the archive, which people and tools look for.
const LOG_MEMBER: &str = "assisted-installer-controller.logs";
const GATHERED_MEMBER: &str = "must-gather.tar.gz";
/// Of a log on disk so much is sent: its end.
const MAX_OWN_LOG: u64 = 32 << 20;
/// Name servers as the host, the host's NetworkManager and this pod see them.
const RESOLV_CONFS: [&str; 3] = ["/etc/resolv.conf", "/tmp/var-run-resolv.conf", "/tmp/host-resolv.conf"];
const MAX_RESOLV_CONF: u64 = 64 << 10;

/// Sends the log every five minutes until the end of the work.
pub(crate) async fn periodically(ctx: &Context) {
    loop {
        tokio::select! {
            () = ctx.clock.sleep(INTERVAL) => {}
            () = ctx.end.wait() => return,
        }
        if let Err(error) = upload(ctx, &Gathered::default()).await {
            tracing::warn!("the log was not sent: {error:#}");
        }
    }
}

/// Sends everything, and tells the service when that begins and ends.
pub(crate) async fn finally(ctx: &Context) {
    state(ctx, LogsState::Requested).await;
    let gathered = Mutex::new(Gathered::default());
    let look = || async {
        let mut gathered = gathered.lock().await;
        match summary(ctx, &mut gathered).await {
            Ok(()) => Look::Done,
            Err(error) => {
                tracing::warn!("not all logs were sent: {error:#}");
                Look::Again
            }
        }
    };
    // The work has ended: this is what comes after.
    let sent = until(&ctx.clock, &End::default(), FINAL_INTERVAL, Some(FINAL_LIMIT), look).await;
    if let Err(why) = sent {
        tracing::warn!(%why, "gave up sending logs");
    }
    state(ctx, LogsState::Completed).await;
}

async fn state(ctx: &Context, state: LogsState) {
    if let Err(error) = ctx.service.put_logs_state(state).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "the service did not take the state of the logs");
    }
}

/// One try. What was gathered is kept for the next, which gathers what is missing.
async fn summary(ctx: &Context, gathered: &mut Gathered) -> anyhow::Result<()> {
    let operators = ctx.faults.operators();
    if !ctx.faults.has_failed() && operators.is_empty() {
        return upload(ctx, gathered).await;
    }
    let images = ctx.config.must_gather.choose(ctx.faults.has_failed(), &operators);
    let mut result = Ok(());
    if gathered.lacks(&images) {
        log_name_servers();
        // What follows may take long, or fail.
        if let Err(error) = upload(ctx, gathered).await {
            tracing::warn!("the log was not sent: {error:#}");
        }
        result = must_gather::gather(ctx, &images, gathered).await;
    }
    upload(ctx, gathered).await?;
    result
}

fn log_name_servers() {
    for path in RESOLV_CONFS {
        match read_end(Path::new(path), MAX_RESOLV_CONF) {
            Ok(text) => tracing::info!(path, text = %String::from_utf8_lossy(&text), "name servers"),
            Err(error) => tracing::info!(path, %error, "name servers"),
        }
    }
}

async fn upload(ctx: &Context, gathered: &Gathered) -> anyhow::Result<()> {
    let log = own_log(ctx).await;
    let gathered = gathered.archive()?;
    let members = gathered.as_deref().map(|gathered| (GATHERED_MEMBER, gathered));
    let archive = archive(members.into_iter().chain([(LOG_MEMBER, log.as_slice())]))?;
    Ok(ctx.service.upload_logs(archive).await?)
}

/// By the API server, else by this container's disk. Something is always sent.
async fn own_log(ctx: &Context) -> Vec<u8> {
    let by_cluster = async {
        let pods = ctx.cluster.list(POD, Some(&ctx.config.namespace), POD_LABEL).await.ok()?;
        let pod = pods.iter().find(|pod| text(pod, "/status/phase") == "Running")?;
        let log = ctx.cluster.pod_log(&ctx.config.namespace, objects::name(&pod.metadata), None).await.ok()?;
        (!log.is_empty()).then_some(log)
    };
    match by_cluster.await {
        Some(log) => log,
        None => read_end(&ctx.own_log, MAX_OWN_LOG).unwrap_or_else(|error| {
            format!("no log from the Kubernetes API, and none in {}: {error}\n", ctx.own_log.display()).into_bytes()
        }),
    }
}

fn read_end(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    use std::io::{Seek, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A tar.gz with these files.
pub(crate) fn archive<'a>(members: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> io::Result<Vec<u8>> {
    // Most of a large one is compressed already.
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(u64::try_from(bytes.len()).unwrap_or_default());
        header.set_mtime(u64::try_from(api::Timestamp::now().unix_seconds()).unwrap_or_default());
        tar.append_data(&mut header, name, bytes)?;
    }
    tar.into_inner()?.finish()
}

/// What the router of a single node says, while the end is being told: the log shows it.
pub(crate) async fn probe_router(ctx: &Context, config: &Config) {
    let Some(snapshot) = ctx.follow.last() else { return };
    if !config.is_single_node() || !ctx.faults.has_failed() {
        return;
    }
    let canary =
        format!("https://canary-openshift-ingress-canary.apps.{}.{}/health", snapshot.name, snapshot.base_domain);
    loop {
        for url in [canary.as_str(), "http://localhost/_______internal_router_healthz"] {
            let asked = url.to_owned();
            let answer = tokio::task::spawn_blocking(move || must_gather::probe(&asked)).await;
            tracing::info!(url, answer = answer.unwrap_or_default(), "router");
        }
        ctx.clock.sleep(FINAL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may fail anywhere
    use super::*;

    #[test]
    fn an_archive_has_its_members_in_order() {
        let members: [(&str, &[u8]); 3] = [(GATHERED_MEMBER, b"\x1f\x8b"), (LOG_MEMBER, b"a line\n"), ("empty", b"")];
        let bytes = archive(members).unwrap();
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut found = Vec::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            assert_eq!(entry.header().mode().unwrap(), 0o644);
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            found.push((name, bytes));
        }
        assert_eq!(found, members.map(|(name, bytes)| (name.to_owned(), bytes.to_owned())));
    }

    #[test]
    fn of_a_long_log_the_end_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\nlast\n").unwrap();
        assert_eq!(read_end(file.path(), 5).unwrap(), b"last\n");
        assert_eq!(read_end(file.path(), 500).unwrap(), b"first\nlast\n");
        assert!(read_end(Path::new("/nonexistent/log"), 5).is_err());
    }
}
