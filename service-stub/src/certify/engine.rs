//! What comes next in a run: a pure function of its record, its hosts and the time.
//!
//! A step whose reply never came is asked for again, [`MAX_TRIES`] times in all. A reply that came is final, except that a test of the
//! network may find its peer not ready.

use super::facts::{HostFacts, Install};
use super::judge::{self, Judgement};
use super::record::{HostRun, MAX_HOSTS, MAX_MEASUREMENTS, Run, RunState};
use super::rounds::{self, Part};
use super::work::{ABSENCE_S, End, INSTALL_S, Place, Work};
use crate::model::HostKey;
use api::Timestamp;
use api::certify::{CertifyReply, CertifyRequest};
use certify::{
    Plan, Step,
    result::{ATTESTATION, State},
};
use std::collections::BTreeMap;

/// How often an action is asked for.
pub(super) const MAX_TRIES: u32 = 3;
/// An instruction may be lost on its way; an agent leaves out what it is doing already.
const REPEATED_FOR_S: i64 = 20;
/// A peer has begun to serve after this.
const SERVES_AFTER_S: i64 = 2;
/// A host that cannot be installed as it is may still change.
const READY_AFTER_S: i64 = 900;

/// A run comes to rest in far fewer.
const MAX_MOVES: usize = 10_000;
/// No machine differs by more, bytes in all.
const MAX_DIFFERENCES_BYTES: usize = 256 << 10;

/// What a run says of a host that is to come back.
const AWAY: &str =
    "waits for the live system to start again: attach its medium, start it from the network, or by its BMC";

pub(super) type Hosts = BTreeMap<HostKey, HostFacts>;

/// What the service is to do for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Make a cluster of it alone.
    Bind(usize),
    /// Start the installation.
    Install(usize),
    /// Take it out of the cluster that it was installed as.
    Release(usize),
    /// Have its TPM sign what it sent, or take the signature.
    Attest(usize),
}

/// What an accepted reply adds to a run.
#[derive(Debug, PartialEq)]
pub(super) struct Accepted {
    /// Name and bytes of a document.
    pub document: Option<(String, Vec<u8>)>,
}

/// Takes the hosts that are there, if they are enough. Gives whether it begins.
pub(super) fn gather(run: &mut Run, hosts: &Hosts, now: Timestamp) -> bool {
    if run.state != RunState::Waiting {
        return false;
    }
    let fits = |facts: &&HostFacts| {
        facts.is_live && facts.has_inventory && run.infra_env_id.is_none_or(|id| facts.key.infra_env == id)
    };
    let here: Vec<&HostFacts> = hosts.values().filter(fits).take(MAX_HOSTS).collect();
    let wanted = run.plan.policy.hosts.map_or(1, |hosts| usize::try_from(hosts).unwrap_or(MAX_HOSTS));
    if here.len() < wanted {
        return false;
    }
    let serials: Vec<&str> = here.iter().map(|facts| facts.serial.as_str()).collect();
    let is_unique = |serial: &str| serials.iter().filter(|other| **other == serial).count() == 1;
    let make = |facts: &&HostFacts| facts.host_run(is_unique(&facts.serial), run.steps());
    run.hosts = here.iter().map(make).collect();
    (run.state, run.started_at) = (RunState::Running, now);
    true
}

/// Moves every host as far as it goes without being asked.
pub(super) fn advance(run: &mut Run, work: &[Work], hosts: &Hosts, now: Timestamp) -> Vec<Order> {
    let mut orders = Vec::new();
    gather(run, hosts, now);
    if run.state != RunState::Running {
        return orders;
    }
    // What one host does may be what another waits for.
    for _ in 0..MAX_MOVES {
        let before = run.hosts.clone();
        for index in 0..run.hosts.len() {
            orders.extend(advance_host(run, index, work, hosts, now));
        }
        if run.hosts == before {
            break;
        }
        orders.clear();
    }
    if run.hosts.iter().all(|host| host.current().is_none()) {
        (run.state, run.ended_at) = (RunState::Done, now);
    }
    orders
}

fn advance_host(run: &mut Run, index: usize, work: &[Work], hosts: &Hosts, now: Timestamp) -> Option<Order> {
    let at = run.hosts[index].current()?;
    let task = work.get(at)?;
    if let Some(reason) = skipped(&run.hosts[index], at, task) {
        let step = &mut run.hosts[index].steps[at];
        step.find(&reason);
        step.end(State::Skipped, now);
        return None;
    }
    let facts = hosts.get(&run.hosts[index].key());
    if *task.step() == Step::Attest {
        return attesting(&mut run.hosts[index], index, at, task, facts, now);
    }
    if !task.is_asked() {
        return installing(&mut run.hosts[index], index, at, task, facts, now);
    }
    let is_network = matches!(task.step(), Step::Network { .. });
    let waits = if is_network { meeting(run, index, at, now)? } else { String::new() };
    let host = &mut run.hosts[index];
    let step = &mut host.steps[at];
    if step.asked_at.is_zero() {
        let is_live = facts.is_some_and(|facts| facts.is_live);
        if step.waits_since.is_zero() {
            step.waits_since = now;
        }
        if !is_live && now.seconds_since(step.waits_since) > ABSENCE_S {
            step.find("the host did not come back within a day");
            step.end(State::Error, now);
            return None;
        }
        let installed = facts.is_some_and(|facts| facts.cluster.is_some() && facts.cluster == host.cluster_id);
        let released = installed
            && facts
                .is_some_and(|facts| matches!(facts.install, Install::Written | Install::Done | Install::Failed(_)));
        host.waits_for = match () {
            () if is_live => waits,
            () if at == 0 => "waits for the host to poll".to_owned(),
            () => AWAY.to_owned(),
        };
        return released.then_some(Order::Release(index));
    }
    host.waits_for = waits;
    let began_anew = facts.is_some_and(|facts| facts.registered_at > step.asked_at);
    match task.end() {
        End::Registration if began_anew => next_phase(host, at, 1, now),
        _ if began_anew => again(host, at, "the host restarted before it replied", now),
        End::Registration if now.seconds_since(step.asked_at) > task.limit_s() => {
            let minutes = task.limit_s() / 60;
            step.find(&format!("the host did not come back within {minutes} minutes"));
            step.end(State::Error, now);
        }
        End::Reply if now.seconds_since(step.asked_at) > task.limit_s() => {
            again(host, at, &format!("no reply within {} s", task.limit_s()), now);
        }
        End::Registration => host.waits_for = "starts again".to_owned(),
        End::Reply => {}
    }
    None
}

/// Why a step is left out.
fn skipped(host: &HostRun, at: usize, task: &Work) -> Option<String> {
    // The capture is still taken: it shows why.
    if at > 0 && !host.blocked.is_empty() {
        return Some(host.blocked.clone());
    }
    let before = host.steps.get(..at)?.iter().find(|step| step.state != State::Passed)?;
    task.needs_sound_host().then(|| format!("skipped, because step {} did not pass", before.name))
}

fn run_rounds(host: &HostRun, at: usize) -> u32 {
    host.steps.get(at).map_or(1, |step| rounds::count(step.parts.len()))
}

/// Asks once more, unless that was often enough.
fn again(host: &mut HostRun, at: usize, reason: &str, now: Timestamp) {
    let step = &mut host.steps[at];
    step.asked_at = Timestamp::ZERO;
    step.waits_since = now;
    if step.tries >= MAX_TRIES {
        step.find(&format!("given up after {} attempts: {reason}", step.tries));
        step.end(State::Error, now);
    }
}

fn next_phase(host: &mut HostRun, at: usize, phases: u32, now: Timestamp) {
    let step = &mut host.steps[at];
    (step.asked_at, step.waits_since, step.tries) = (Timestamp::ZERO, now, 0);
    step.phase += 1;
    host.waits_for.clear();
    if step.phase >= phases {
        step.end(step.worst.unwrap_or(State::Passed), now);
    }
}

/// A round of the network: what the host waits for (empty if it can be asked), or nothing if it moved.
fn meeting(run: &mut Run, index: usize, at: usize, now: Timestamp) -> Option<String> {
    let arrived = |host: &HostRun| host.steps.get(..at).is_some_and(|steps| steps.iter().all(|step| !step.is_open()));
    if run.hosts[index].steps[at].parts.is_empty() {
        if let Some(late) = run.hosts.iter().find(|host| !arrived(host)) {
            return Some(format!("waits for {}, which is at an earlier step", late.name));
        }
        let takes_part = |host: &HostRun| host.blocked.is_empty() && host.steps[at].is_open();
        let parts: Vec<usize> = (0..run.hosts.len()).filter(|other| takes_part(&run.hosts[*other])).collect();
        for other in parts.clone() {
            run.hosts[other].steps[at].parts.clone_from(&parts);
        }
        return None;
    }
    let (part, peer) = place_in(&run.hosts[index], index, at);
    let phase = run.hosts[index].steps[at].phase;
    let rounds = run_rounds(&run.hosts[index], at);
    let Some(peer) = peer else {
        if part == Part::Alone {
            return Some(String::new());
        }
        next_phase(&mut run.hosts[index], at, rounds, now);
        return None;
    };
    let (theirs, name) = (run.hosts[peer].steps[at].clone(), run.hosts[peer].name.clone());
    let asked = !run.hosts[index].steps[at].asked_at.is_zero();
    let over = !theirs.is_open() || theirs.phase > phase;
    match part {
        Part::Serve if over && !asked => next_phase(&mut run.hosts[index], at, rounds, now),
        Part::Test if over && !asked => {
            let step = &mut run.hosts[index].steps[at];
            step.find(&format!("{name} stopped before it was tested"));
            step.note(State::Error);
            next_phase(&mut run.hosts[index], at, rounds, now);
        }
        Part::Serve if !asked && run.hosts[index].steps[at].tries > 0 && !theirs.asked_at.is_zero() => {
            return Some(format!("waits for the measurement of {name}"));
        }
        _ if theirs.phase < phase => return Some(format!("waits for {name}, which is in an earlier round")),
        Part::Test if !asked && (theirs.asked_at.is_zero() || now.seconds_since(theirs.asked_at) < SERVES_AFTER_S) => {
            return Some(format!("waits for {name} to serve"));
        }
        _ => return Some(String::new()),
    }
    None
}

/// The host's part in its round, and the peer's index.
fn place_in(host: &HostRun, index: usize, at: usize) -> (Part, Option<usize>) {
    let step = &host.steps[at];
    let own = step.parts.iter().position(|part| *part == index).unwrap_or(0);
    let (part, peer) = rounds::part(step.parts.len(), own, step.phase);
    (part, peer.and_then(|peer| step.parts.get(peer).copied()))
}

/// A signature of the host's TPM: its agent gives it in the live system.
fn attesting(
    host: &mut HostRun,
    index: usize,
    at: usize,
    task: &Work,
    facts: Option<&HostFacts>,
    now: Timestamp,
) -> Option<Order> {
    let is_live = facts.is_some_and(|facts| facts.is_live);
    let step = &mut host.steps[at];
    if step.waits_since.is_zero() {
        step.waits_since = now;
    }
    if is_live && step.started_at.is_zero() {
        (step.state, step.started_at, step.attempts) = (State::Running, now, 1);
    }
    let fault = if !step.started_at.is_zero() && now.seconds_since(step.started_at) > task.limit_s() {
        Some(format!("no signature of the TPM within {} minutes", task.limit_s() / 60))
    } else if !is_live && now.seconds_since(step.waits_since) > ABSENCE_S {
        Some("the host did not come back within a day".to_owned())
    } else {
        None
    };
    if let Some(fault) = fault {
        step.find(&fault);
        step.end(State::Error, now);
        return None;
    }
    host.waits_for = if is_live { "waits for the TPM to sign".to_owned() } else { AWAY.to_owned() };
    is_live.then_some(Order::Attest(index))
}

/// Takes what a TPM signed, or why it did not.
pub(super) fn attested(run: &mut Run, index: usize, signed: Result<(), String>, now: Timestamp) {
    let Some(host) = run.hosts.get_mut(index) else { return };
    let Some(step) = host.current().and_then(|at| host.steps.get_mut(at)) else { return };
    match signed {
        Ok(()) => {
            step.files = vec![ATTESTATION.to_owned()];
            step.end(State::Passed, now);
        }
        Err(reason) => {
            step.find(&reason);
            step.end(State::Error, now);
        }
    }
    host.waits_for.clear();
}

/// An installation, or the start of what was installed.
fn installing(
    host: &mut HostRun,
    index: usize,
    at: usize,
    task: &Work,
    facts: Option<&HostFacts>,
    now: Timestamp,
) -> Option<Order> {
    let step = &mut host.steps[at];
    if step.waits_since.is_zero() {
        step.waits_since = now;
    }
    let begins = step.started_at.is_zero();
    let waited = now.seconds_since(step.waits_since);
    let absent = Install::None;
    let install = facts.map_or(&absent, |facts| &facts.install);
    let own = facts.is_some_and(|facts| facts.cluster.is_some() && facts.cluster == host.cluster_id);
    let is_install = *task.step() == Step::Install;
    let mut order = None;
    let fail = match install {
        // A cluster of an earlier step.
        Install::Written | Install::Done | Install::Failed(_) if own && is_install && begins => {
            order = Some(Order::Release(index));
            host.waits_for = "waits for the host to be taken out of its cluster".to_owned();
            None
        }
        Install::Failed(reason) if own => Some(format!("the installation failed: {reason}")),
        Install::Done if own => {
            step.end(State::Passed, now);
            host.waits_for.clear();
            None
        }
        Install::Written if own && is_install => {
            step.end(State::Passed, now);
            host.waits_for.clear();
            None
        }
        _ if !is_install && !own => Some("the host left the cluster that it was installed as".to_owned()),
        Install::Running(stage) | Install::Ready(stage) | Install::Unready(stage) if own => {
            let (is_ready, is_unready) = (matches!(install, Install::Ready(_)), matches!(install, Install::Unready(_)));
            host.waits_for.clone_from(stage);
            if is_ready {
                order = Some(Order::Install(index));
            }
            (is_unready && waited > READY_AFTER_S).then(|| format!("the host cannot be installed: {stage}"))
        }
        Install::Written => {
            host.waits_for = "starts the installed system".to_owned();
            None
        }
        _ if facts.is_some_and(|facts| facts.cluster.is_some() && !own) => {
            Some("the host belongs to another cluster: unbind it, and run the plan again".to_owned())
        }
        _ if facts.is_some_and(|facts| facts.can_bind) => {
            order = Some(Order::Bind(index));
            None
        }
        _ => {
            host.waits_for = match facts.is_some_and(|facts| facts.is_live) {
                true => "waits for the host's checks".to_owned(),
                false => AWAY.to_owned(),
            };
            (waited > ABSENCE_S).then(|| "the host did not come back within a day".to_owned())
        }
    };
    let step = &mut host.steps[at];
    if begins && matches!(order, Some(Order::Bind(_))) {
        (step.state, step.started_at, step.attempts, step.waits_since) = (State::Running, now, 1, now);
    }
    if step.state == State::Waiting && !is_install {
        (step.state, step.started_at, step.attempts, step.waits_since) = (State::Running, now, 1, now);
    }
    let fail = fail.or_else(|| {
        let late = !step.started_at.is_zero() && step.is_open() && now.seconds_since(step.started_at) > INSTALL_S;
        late.then(|| format!("not done within {} hours", INSTALL_S / 3600))
    });
    if let Some(reason) = fail {
        step.find(&reason);
        step.end(State::Failed, now);
        return None;
    }
    order
}

/// The request for a host that polls, if there is one.
pub(super) fn ask(run: &mut Run, index: usize, work: &[Work], hosts: &Hosts, now: Timestamp) -> Option<CertifyRequest> {
    if run.state != RunState::Running {
        return None;
    }
    let host = run.hosts.get(index)?;
    let at = host.current()?;
    let task = work.get(at).filter(|task| task.is_asked())?;
    let facts = hosts.get(&host.key()).filter(|facts| facts.is_live)?;
    let (part, peer) = place_in(host, index, at);
    let is_network = matches!(task.step(), Step::Network { .. });
    let asked_at = host.steps[at].asked_at;
    if !asked_at.is_zero() && now.seconds_since(asked_at) >= REPEATED_FOR_S {
        return None;
    }
    if is_network && (!meeting(run, index, at, now)?.is_empty() || part == Part::Pause) {
        return None;
    }
    let peer = peer.and_then(|peer| hosts.get(&run.hosts.get(peer)?.key())?.address);
    let place = Place { disk: &facts.disk, part, peer };
    let id = run.id.to_string();
    let host = &mut run.hosts[index];
    let action = match task.action(host.steps[at].phase, &place) {
        Ok(action) => action,
        Err(lacks) => {
            lacks.clone_into(&mut host.waits_for);
            return None;
        }
    };
    let step = &mut host.steps[at];
    if asked_at.is_zero() {
        if step.started_at.is_zero() {
            step.started_at = now;
        }
        step.state = State::Running;
        step.asked_at = now;
        step.attempts += 1;
        step.tries += 1;
        host.waits_for.clear();
    }
    let step = u32::try_from(at).ok()?;
    Some(CertifyRequest { run: id, step, attempt: host.steps[at].attempts, action })
}

/// Takes a reply; none if it is not the one that is waited for.
pub(super) fn reply(
    run: &mut Run,
    index: usize,
    work: &[Work],
    reply: &CertifyReply,
    now: Timestamp,
) -> Option<Accepted> {
    let host = run.hosts.get(index)?;
    let at = host.current()?;
    let (task, step) = (work.get(at)?, &host.steps[at]);
    let is_awaited = run.state == RunState::Running
        && reply.run == run.id.to_string()
        && usize::try_from(reply.step) == Ok(at)
        && reply.attempt == step.attempts
        && !step.asked_at.is_zero();
    if !is_awaited {
        return None;
    }
    let (part, peer) = place_in(host, index, at);
    let peer_name = peer.map(|peer| run.hosts[peer].name.clone());
    let tested = peer.is_some_and(|peer| {
        let theirs = &run.hosts[peer].steps[at];
        !theirs.is_open() || theirs.phase > step.phase
    });
    let blocks = run.plan.policy.mismatch == certify::plan::Mismatch::Block;
    let comparison = (*task.step() == Step::Report && step.phase == 0).then(|| run.plan.compare(&reply.document));
    let too_long = |lines: &[String]| lines.iter().map(String::len).sum::<usize>() > MAX_DIFFERENCES_BYTES;
    let is_absurd = comparison.as_ref().is_some_and(|comparison| too_long(&comparison.differences));
    let rounds = run_rounds(host, at);
    let Judgement { state, findings, measurements, document, may_repeat } =
        judge::judge(task.step(), step.phase, part, peer_name.as_deref(), reply);
    let state = if is_absurd { State::Error } else { state };
    let document = document.map(|(name, bytes)| (file_name(&run.plan, at, name), bytes));
    let host = &mut run.hosts[index];
    let step = &mut host.steps[at];
    if let Some((name, _)) = &document
        && !step.files.contains(name)
    {
        step.files.push(name.clone());
    }
    if may_repeat && step.tries < MAX_TRIES {
        (step.asked_at, step.waits_since) = (Timestamp::ZERO, now);
        return Some(Accepted { document });
    }
    findings.iter().for_each(|finding| step.find(finding));
    for (name, value) in measurements {
        if value.is_finite() && (step.measurements.len() < MAX_MEASUREMENTS || step.measurements.contains_key(&name)) {
            step.measurements.insert(name, value);
        }
    }
    step.note(state);
    match task.end() {
        // What was asked for does not come.
        End::Registration if state != State::Passed => step.end(state, now),
        // It ends when the host is back.
        End::Registration => {}
        // Its peer is still to test it.
        End::Reply if part == Part::Serve && state == State::Passed && !tested && step.tries < MAX_TRIES => {
            (step.asked_at, step.waits_since) = (Timestamp::ZERO, now);
        }
        End::Reply => next_phase(host, at, task.phases(rounds), now),
    }
    if is_absurd {
        "its report is not plausible: the differences are longer than any report".clone_into(&mut host.blocked);
    }
    if let Some(comparison) = comparison.filter(|_| state == State::Passed) {
        host.sku = comparison.sku;
        host.differences = comparison.differences;
        if blocks && !host.differences.is_empty() {
            let what = host.sku.as_ref().map_or_else(String::new, |sku| format!(" from SKU {sku}"));
            let first = host.differences.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
            let (count, places) =
                (host.differences.len(), if host.differences.len() == 1 { "place" } else { "places" });
            host.blocked = format!("the host differs{what} in {count} {places}: {first}");
        }
    }
    Some(Accepted { document })
}

/// The name of a document: with the place of its step, if that is not the first of its kind.
fn file_name(plan: &Plan, at: usize, name: String) -> String {
    let (before, step) = (plan.steps.iter().take(at), plan.steps.get(at).map(Step::name));
    match name.split_once('.').filter(|_| before.map(Step::name).any(|other| Some(other) == step)) {
        Some((stem, ending)) => format!("{stem}-{at}.{ending}"),
        None => name,
    }
}

/// Ends a run before its end.
pub(super) fn cancel(run: &mut Run, now: Timestamp) {
    for step in run.hosts.iter_mut().flat_map(|host| &mut host.steps).filter(|step| step.is_open()) {
        step.find("the run was cancelled");
        step.end(State::Skipped, now);
    }
    run.hosts.iter_mut().for_each(|host| host.waits_for.clear());
    (run.state, run.ended_at) = (RunState::Cancelled, now);
}

/// Ends a step whose order the service could not carry out.
pub(super) fn fail(run: &mut Run, index: usize, reason: &str, now: Timestamp) {
    let Some(host) = run.hosts.get_mut(index) else { return };
    if let Some(step) = host.current().and_then(|at| host.steps.get_mut(at)) {
        step.find(reason);
        step.end(State::Error, now);
    }
}
