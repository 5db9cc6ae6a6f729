//! Replies on their way to the service: repeated ones are left out, refused ones dropped, the rest retried.

use crate::settings::Pace;
use api::{Client, ClientError, HostId, InfraEnvId, StepReply, StepType};
use std::{
    collections::HashMap,
    error::Error,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Attempts of one reply. Persistent failures exist: the service answers an inventory with 500 in some states.
const ATTEMPTS: u32 = 10;
/// More waiting replies, or more bytes of them, and the oldest are dropped.
const MAX_WAITING: usize = 32;
const MAX_WAITING_BYTES: usize = 64 << 20;
/// No delay grows beyond this.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Whom a reply is for. The client carries the request id of the poll that brought the step.
#[derive(Clone, Debug)]
pub struct Route {
    pub client: Client,
    /// Infra-env of the host.
    pub infra_env_id: InfraEnvId,
    pub host_id: HostId,
}

#[derive(Debug)]
struct Waiting {
    route: Route,
    reply: StepReply,
    attempt: u32,
    due: Instant,
}

/// What was last accepted, by step type (docs/compatibility.md#replies): not the outputs themselves, which may have megabytes.
#[derive(Debug, Default)]
struct Cache(HashMap<StepType, (Fingerprint, Instant)>);

/// A hash and a length. Two outputs that share both would cost an hour, once in a universe.
type Fingerprint = (u64, usize);

fn fingerprint(output: &str) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    output.hash(&mut hasher);
    (hasher.finish(), output.len())
}

impl Cache {
    /// Whether the service already has exactly this.
    fn has(&self, reply: &StepReply, now: Instant, ttl: Duration) -> bool {
        let known = self.0.get(&reply.step_type);
        reply.exit_code == 0
            && known.is_some_and(|(known, at)| {
                *known == fingerprint(&reply.output) && now.saturating_duration_since(*at) < ttl
            })
    }

    fn store(&mut self, reply: StepReply, now: Instant) {
        if reply.exit_code == 0 {
            self.0.insert(reply.step_type, (fingerprint(&reply.output), now));
        }
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Waiting>,
    cache: Cache,
    /// Counts the flushes: an answer to what was sent before one must not be stored after it.
    flushes: u64,
    closed: bool,
}

impl State {
    /// A newer reply replaces an unsent one of the same type: the service wants the present state.
    fn put(&mut self, waiting: Waiting) {
        self.waiting.retain(|other| other.reply.step_type != waiting.reply.step_type);
        self.waiting.push(waiting);
        let size = |waiting: &Waiting| waiting.reply.output.len() + waiting.reply.error.len();
        while self.waiting.len() > MAX_WAITING
            || (self.waiting.len() > 1 && self.waiting.iter().map(size).sum::<usize>() > MAX_WAITING_BYTES)
        {
            let dropped = self.waiting.remove(0);
            tracing::warn!(step = dropped.reply.step_id, "too many replies are waiting, dropping the oldest");
        }
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pace: Pace,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Posts replies from its own thread.
#[derive(Debug)]
pub struct Outbox {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Outbox {
    pub fn start(pace: Pace) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), pace });
        let poster = shared.clone();
        let thread = Some(thread::Builder::new().name("replies".into()).spawn(move || post_all(&poster))?);
        Ok(Self { shared, thread })
    }

    /// Sends `reply`, with retries, unless the service has it.
    pub fn post(&self, route: Route, reply: StepReply) {
        let now = Instant::now();
        let mut state = self.shared.lock();
        if state.cache.has(&reply, now, self.shared.pace.reply_cache) {
            tracing::debug!(step = reply.step_id, "same result as last time, not sent");
            return;
        }
        state.put(Waiting { route, reply, attempt: 0, due: now });
        self.shared.changed.notify_all();
    }

    /// How many replies wait to be sent.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting.len()
    }

    /// Forgets what the service has: it may have forgotten itself.
    pub fn flush_cache(&self) {
        let mut state = self.shared.lock();
        state.cache = Cache::default();
        state.flushes += 1;
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn post_all(shared: &Shared) {
    let mut state = shared.lock();
    while !state.closed {
        let now = Instant::now();
        let next = state.waiting.iter().enumerate().min_by_key(|(_, waiting)| waiting.due);
        match next.map(|(index, waiting)| (index, waiting.due.saturating_duration_since(now))) {
            None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some((_, left)) if !left.is_zero() => {
                state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            Some((index, _)) => {
                let waiting = state.waiting.remove(index);
                // It may have come while the same result was on its way.
                if state.cache.has(&waiting.reply, now, shared.pace.reply_cache) {
                    tracing::debug!(step = waiting.reply.step_id, "same result as last time, not sent");
                    continue;
                }
                let flushes = state.flushes;
                drop(state);
                let result =
                    waiting.route.client.post_reply(waiting.route.infra_env_id, waiting.route.host_id, &waiting.reply);
                state = shared.lock();
                match result {
                    Ok(()) if flushes == state.flushes => state.cache.store(waiting.reply, Instant::now()),
                    Ok(()) => {}
                    Err(error) => retry(&mut state, waiting, &error, shared.pace),
                }
            }
        }
    }
}

fn retry(state: &mut State, waiting: Waiting, error: &ClientError, pace: Pace) {
    let step = waiting.reply.step_id.clone();
    let cause = error as &dyn Error;
    let attempt = waiting.attempt + 1;
    let superseded = state.waiting.iter().any(|other| other.reply.step_type == waiting.reply.step_type);
    if !may_pass(error) || attempt >= ATTEMPTS {
        tracing::warn!(step, error = cause, "the reply was not accepted, dropping it");
    } else if superseded {
        tracing::debug!(step, error = cause, "the reply was not accepted, a newer one waits");
    } else {
        let delay = pace.reply_retry.saturating_mul(2u32.saturating_pow(waiting.attempt)).min(MAX_DELAY);
        tracing::warn!(step, error = cause, delay_ms = delay.as_millis(), "the reply was not accepted, trying again");
        state.put(Waiting { attempt, due: Instant::now() + delay, ..waiting });
    }
}

/// No answer, or one that speaks of the service's own trouble.
fn may_pass(error: &ClientError) -> bool {
    error.status().is_none_or(|status| matches!(status, 408 | 429 | 500..=599))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{ClientConfig, RetryPolicy};
    use std::{
        io::{BufReader, Write},
        net::{TcpListener, TcpStream},
    };
    use testkit::http::Request;

    fn reply(kind: StepType, exit_code: i64, output: &str) -> StepReply {
        StepReply { error: String::new(), exit_code, output: output.into(), step_id: "x-1".into(), step_type: kind }
    }

    #[test]
    fn only_the_same_success_within_the_hour_is_left_out() {
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let mut cache = Cache::default();
        let same = reply(StepType::Inventory, 0, "a");
        assert!(!cache.has(&same, now, hour));
        cache.store(same.clone(), now);
        assert!(cache.has(&same, now + hour - Duration::from_secs(1), hour));
        assert!(!cache.has(&same, now + hour, hour));
        assert!(!cache.has(&reply(StepType::Inventory, 0, "b"), now, hour));
        assert!(!cache.has(&reply(StepType::Inventory, -1, "a"), now, hour));
        assert!(!cache.has(&reply(StepType::Install, 0, "a"), now, hour));
        cache.store(reply(StepType::Inventory, 1, "z"), now);
        assert!(cache.has(&same, now, hour), "a failure replaces nothing");
    }

    #[test]
    fn waiting_replies_are_bounded_and_the_newest_of_a_type_wins() {
        let config = ClientConfig { url: "http://127.0.0.1:1".into(), ..ClientConfig::default() };
        let client = Client::new(&config, RetryPolicy::Never).unwrap();
        let route = Route { client, infra_env_id: InfraEnvId::random(), host_id: HostId::random() };
        let waiting = |reply| Waiting { route: route.clone(), reply, attempt: 0, due: Instant::now() };
        let mut state = State::default();
        state.put(waiting(reply(StepType::Inventory, 0, "old")));
        state.put(waiting(reply(StepType::Install, 1, "")));
        state.put(waiting(reply(StepType::Inventory, 0, "new")));
        let outputs: Vec<_> = state.waiting.iter().map(|w| w.reply.output.as_str()).collect();
        assert_eq!(outputs, ["", "new"]);
        for n in 0..100 {
            state.put(waiting(reply(StepType::Other(format!("t{n}")), -1, "")));
        }
        assert_eq!(state.waiting.len(), MAX_WAITING);
        let huge = "x".repeat(MAX_WAITING_BYTES / 2 + 1);
        for kind in [StepType::Inventory, StepType::ConnectivityCheck] {
            state.put(waiting(reply(kind, 0, &huge)));
        }
        assert_eq!(state.waiting.len(), 1);
        assert_eq!(state.waiting[0].reply.step_type, StepType::ConnectivityCheck);
    }

    /// The next request's connection and body.
    fn next_request(listener: &TcpListener) -> (TcpStream, String) {
        let (stream, _) = listener.accept().unwrap();
        let request = Request::read(&mut BufReader::new(&stream)).unwrap().unwrap();
        (stream, String::from_utf8(request.body).unwrap())
    }

    #[test]
    fn a_result_that_is_on_its_way_is_not_sent_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::new(&ClientConfig { url, ..ClientConfig::default() }, RetryPolicy::Never).unwrap();
        let route = Route { client, infra_env_id: InfraEnvId::random(), host_id: HostId::random() };
        let outbox = Outbox::start(Pace::default()).unwrap();
        let post = |output| outbox.post(route.clone(), reply(StepType::Inventory, 0, output));
        let answer = |mut stream: TcpStream| {
            stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
        };
        post("first");
        let (stream, body) = next_request(&listener);
        assert!(body.contains("first"), "{body}");
        post("first");
        answer(stream);
        while outbox.waiting() > 0 {
            thread::yield_now();
        }
        post("second");
        let (stream, body) = next_request(&listener);
        assert!(body.contains("second"), "{body}");
        answer(stream);
    }

    #[test]
    fn the_services_own_trouble_may_pass() {
        let status = |status| ClientError::Status {
            method: "GET".parse().unwrap(),
            path: String::new(),
            status,
            message: String::new(),
            retry_after: None,
        };
        assert!([408, 429, 500, 502, 503].into_iter().all(|s| may_pass(&status(s))));
        assert!([400, 401, 403, 404, 409].into_iter().all(|s| !may_pass(&status(s))));
    }
}
