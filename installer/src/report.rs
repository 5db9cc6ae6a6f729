//! Progress to the service: sent from its own thread, so that a slow service slows nothing else.

use api::{Client, ClientConfig, ClientError, HostId, HostProgress, HostStage, InfraEnvId, RetryPolicy, Timestamp};
use diskwrite::Event;
use kernel::Cancel;
use serde::Serialize;
use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A percentage this many points above the last is worth a request (docs/compatibility.md#writing-progress).
const STEP_POINTS: u8 = 5;
/// How often the image's growth is shown on this host.
const STAGE_FILE_INTERVAL: Duration = Duration::from_secs(1);

/// Which percentages are sent: every five points or more, and 100 once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Thinning {
    last: u8,
}

impl Thinning {
    /// Whether `percent` is sent. A second attempt starts at 0 again and stays silent until it passes the first.
    pub(crate) fn take(&mut self, percent: u8) -> bool {
        let percent = percent.min(100);
        let worth = percent >= self.last.saturating_add(STEP_POINTS) || (percent == 100 && self.last != 100);
        if worth {
            self.last = percent;
        }
        worth
    }
}

#[derive(Debug, Default)]
struct Mailbox {
    letters: VecDeque<Letter>,
    sending: bool,
    closed: bool,
}

#[derive(Debug)]
struct Letter {
    progress: HostProgress,
    /// A detail that the next report supersedes.
    replaceable: bool,
}

impl Mailbox {
    /// Stages keep their order and are all sent; a detail gives way to whatever follows, since the service refuses
    /// reports of a stage that has passed.
    fn put(&mut self, letter: Letter) {
        if self.letters.back().is_some_and(|last| last.replaceable) {
            self.letters.pop_back();
        }
        self.letters.push_back(letter);
    }
}

#[derive(Debug, Default)]
struct Shared {
    mailbox: Mutex<Mailbox>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends reports in order. Failures are only logged: an installation doesn't fail because a report did.
#[derive(Debug)]
pub(crate) struct Reporter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    thinning: Thinning,
    rate: Rate,
    stage_file: Option<PathBuf>,
}

/// How fast something grows, asked once a second at most.
#[derive(Debug, Default)]
struct Rate {
    last: Option<(u64, Instant)>,
}

impl Rate {
    /// Bytes per second since the last answer; `None` before a second is over. 0 at the start of each attempt.
    fn per_second(&mut self, bytes: u64, now: Instant) -> Option<u64> {
        let Some((before, then)) = self.last.filter(|(before, _)| *before <= bytes) else {
            self.last = Some((bytes, now));
            return Some(0);
        };
        let elapsed = now.saturating_duration_since(then);
        if elapsed < STAGE_FILE_INTERVAL {
            return None;
        }
        self.last = Some((bytes, now));
        let per_second = u128::from(bytes - before) * 1000 / elapsed.as_millis().max(1);
        Some(u64::try_from(per_second).unwrap_or(u64::MAX))
    }
}

/// How far the image is.
#[derive(Clone, Copy, Debug, Serialize)]
struct ImageBytes {
    read_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes: Option<u64>,
    written_bytes: u64,
    bytes_per_second: u64,
}

/// What the stage file has.
#[derive(Debug, Serialize)]
struct StageDocument<'a> {
    stage: HostStage,
    info: &'a str,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<ImageBytes>,
}

/// Why there is no reporter.
#[derive(Debug, thiserror::Error)]
pub enum ReporterError {
    /// The client can't be set up.
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot start the thread that reports progress")]
    Thread { source: io::Error },
}

impl Reporter {
    pub(crate) fn start(
        config: &ClientConfig,
        infra_env: InfraEnvId,
        host: HostId,
        cancel: &Cancel,
    ) -> Result<Self, ReporterError> {
        // Stages are worth half an hour of retries, details are not: a newer one comes.
        let patient = Client::new(config, RetryPolicy::Installer)?.stopped_by(cancel);
        let brief = Client::new(config, RetryPolicy::Never)?.stopped_by(cancel);
        let shared = Arc::new(Shared::default());
        let reader = shared.clone();
        let send = move |letter: &Letter| {
            let client = if letter.replaceable { &brief } else { &patient };
            client.session().put_progress(infra_env, host, &letter.progress)
        };
        let thread = thread::Builder::new().name("progress".into()).spawn(move || post(&reader, send));
        let thread = Some(thread.map_err(|source| ReporterError::Thread { source })?);
        Ok(Self { shared, thread, thinning: Thinning::default(), rate: Rate::default(), stage_file: None })
    }

    /// Also writes the present stage to the file at `path`, which is replaced each time.
    pub(crate) fn tell(&mut self, path: &Path) {
        self.stage_file = Some(path.to_owned());
    }

    /// Reports a stage.
    pub(crate) fn stage(&self, stage: HostStage, info: &str) {
        tracing::info!(%stage, info, "stage");
        self.put(stage, info.to_owned(), false);
    }

    /// Reports how much of the image is read, when that is worth it. The stage file has every second of it.
    pub(crate) fn image(&mut self, event: &Event) {
        let Event::Progress { source_bytes_read, source_total, written_bytes, percent, .. } = event else { return };
        let (info, worth) = match *percent {
            Some(percent) => (format!("{}%", percent.min(100)), self.thinning.take(percent)),
            None => (String::new(), false),
        };
        let rate = self.rate.per_second(*source_bytes_read, Instant::now());
        let progress = HostProgress { current_stage: HostStage::WritingImageToDisk, progress_info: info };
        if let Some(bytes_per_second) = rate {
            let image = ImageBytes {
                read_bytes: *source_bytes_read,
                total_bytes: *source_total,
                written_bytes: *written_bytes,
                bytes_per_second,
            };
            self.write_stage(&progress, Some(image));
        }
        if worth {
            // That all is read is not a detail: it is not reported again.
            let replaceable = progress.progress_info != "100%";
            self.send(progress, replaceable);
        }
    }

    fn put(&self, current_stage: HostStage, progress_info: String, replaceable: bool) {
        let progress = HostProgress { current_stage, progress_info };
        self.write_stage(&progress, None);
        self.send(progress, replaceable);
    }

    fn write_stage(&self, progress: &HostProgress, image: Option<ImageBytes>) {
        if let Some(path) = &self.stage_file
            && let Err(error) = write_stage(path, progress, image)
        {
            tracing::debug!(path = %path.display(), %error, "cannot write the stage to its file");
        }
    }

    fn send(&self, progress: HostProgress, replaceable: bool) {
        self.shared.lock().put(Letter { progress, replaceable });
        self.shared.changed.notify_all();
    }

    /// Waits until all is sent, for `patience` at most, or a few seconds once cancelled. Says whether it was.
    pub(crate) fn flush(&self, patience: Duration, cancel: &Cancel) -> bool {
        let start = Instant::now();
        let mut mailbox = self.shared.lock();
        while mailbox.sending || !mailbox.letters.is_empty() {
            let patience = if cancel.is_cancelled() { patience.min(Duration::from_secs(5)) } else { patience };
            let remaining = patience.saturating_sub(start.elapsed());
            if remaining.is_zero() {
                return false;
            }
            let wait = self.shared.changed.wait_timeout(mailbox, remaining.min(Duration::from_millis(200)));
            mailbox = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Sends what is left, as [`Reporter::flush`], and ends the thread; one stuck in a request is left behind.
    pub(crate) fn finish(mut self, patience: Duration, cancel: &Cancel) {
        let idle = self.flush(patience, cancel);
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        match self.thread.take() {
            Some(thread) if idle => drop(thread.join()),
            _ => tracing::warn!("leaving with unsent progress reports"),
        }
    }
}

/// Replaced at once.
fn write_stage(path: &Path, progress: &HostProgress, image: Option<ImageBytes>) -> io::Result<()> {
    let (stage, info) = (progress.current_stage, progress.progress_info.as_str());
    let text = serde_json::to_string(&StageDocument { stage, info, at: Timestamp::now(), image })?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let draft = path.with_extension("draft");
    fs::write(&draft, text)?;
    fs::rename(draft, path)
}

fn post(shared: &Shared, send: impl Fn(&Letter) -> Result<(), ClientError>) {
    let mut mailbox = shared.lock();
    loop {
        if let Some(letter) = mailbox.letters.pop_front() {
            mailbox.sending = true;
            drop(mailbox);
            if let Err(error) = send(&letter) {
                let stage = letter.progress.current_stage;
                tracing::warn!(%stage, info = letter.progress.progress_info, error = &error as &dyn std::error::Error, "progress report failed, continuing");
            }
            mailbox = shared.lock();
            mailbox.sending = false;
            shared.changed.notify_all();
        } else if mailbox.closed {
            return;
        } else {
            mailbox = shared.changed.wait(mailbox).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_go_in_steps_of_five_points_and_reach_100_once() {
        let sent = |percents: &[u8]| {
            let mut thinning = Thinning::default();
            percents.iter().copied().filter(|&p| thinning.take(p)).collect::<Vec<_>>()
        };
        assert_eq!(sent(&[0, 4, 5, 9, 10, 25, 29, 30, 95, 99, 100]), [5, 10, 25, 30, 95, 100]);
        assert_eq!(sent(&[7, 98, 100, 100]), [7, 98, 100]);
        assert_eq!(sent(&(0..=100).collect::<Vec<_>>()).len(), 20);
        assert_eq!(sent(&[60, 0, 30, 64, 65]), [60, 65], "a second attempt");
        assert_eq!(sent(&[255, 255]), [255]);
    }

    #[test]
    fn the_stage_file_has_the_last_stage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("installation/stage.json");
        for (info, stage) in [("", HostStage::Installing), ("25%", HostStage::WritingImageToDisk)] {
            write_stage(&path, &HostProgress { current_stage: stage, progress_info: info.into() }, None).unwrap();
        }
        let written: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!((&written["stage"], &written["info"]), (&"Writing image to disk".into(), &"25%".into()));
        assert_eq!(written["image"], serde_json::Value::Null);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_rate_is_given_once_a_second() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        let after = |ms| start + Duration::from_millis(ms);
        let written: Vec<_> = [(0, 0), (500, 100), (2000, 600), (2500, 700), (3000, 700), (4000, 10), (6000, 4010)]
            .into_iter()
            .map(|(ms, bytes)| rate.per_second(bytes, after(ms)))
            .collect();
        assert_eq!(written, [Some(0), None, Some(300), None, Some(100), Some(0), Some(2000)], "the sixth starts again");
    }

    #[test]
    fn a_newer_percentage_replaces_an_unsent_one_and_a_stage_drops_it() {
        let mut mailbox = Mailbox::default();
        let letter = |stage, info: &str, replaceable| Letter {
            progress: HostProgress { current_stage: stage, progress_info: info.into() },
            replaceable,
        };
        mailbox.put(letter(HostStage::Installing, "", false));
        mailbox.put(letter(HostStage::WritingImageToDisk, "", false));
        mailbox.put(letter(HostStage::WritingImageToDisk, "5%", true));
        mailbox.put(letter(HostStage::WritingImageToDisk, "55%", true));
        assert_eq!(mailbox.letters.len(), 3);
        assert_eq!(mailbox.letters[2].progress.progress_info, "55%");
        mailbox.put(letter(HostStage::Rebooting, "", false));
        let stages: Vec<_> = mailbox.letters.iter().map(|l| l.progress.current_stage).collect();
        assert_eq!(stages, [HostStage::Installing, HostStage::WritingImageToDisk, HostStage::Rebooting]);
    }
}
