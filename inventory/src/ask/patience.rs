//! Answers within a time. A device that hangs holds up neither the others nor the inventory: it is abandoned and not
//! asked again.
//!
//! Each device is asked by its own process. What waits in a driver, even for the closing of a disk, can be killed but
//! does not end, and a process ends only after its last thread: with a thread of ours, our parent would wait for the disk
//! too. So only that process stays behind.

use super::{
    Question, devices,
    letter::{self, Letters},
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// For one answer. A healthy disk answers within milliseconds, one that has to spin up within seconds.
const LIMIT: Duration = Duration::from_secs(3);
/// Devices that are asked at the same time, not counting those that have not answered for longer than `BUSY`.
const WORKERS: usize = 8;
const BUSY: Duration = Duration::from_millis(250);
/// Processes that wait at the same time or were abandoned to devices that hang. Those end when their device does.
const MAX_WAITING: usize = 128;

/// Asks the running system, and records what hung.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    stuck: Mutex<BTreeSet<String>>,
    /// Processes that have sent all their answers.
    ended: Mutex<Vec<Pid>>,
}

/// Asks one device, in another process.
struct Asker {
    device: String,
    process: Pid,
    pipe: File,
    letters: Letters,
    /// Places of the questions it has not answered yet, in its order.
    open: VecDeque<usize>,
    /// The last answer, or its start.
    heard: Instant,
}

type Answer = io::Result<Vec<u8>>;

impl Patience {
    /// The answers to all, in their order. Takes as long as the slowest device that still answers; if many hang, a few times
    /// the limit.
    pub(crate) fn ask_all(&self, questions: &[Question]) -> Vec<Answer> {
        self.ask_with(questions, LIMIT, devices::answer)
    }

    fn ask_with(&self, questions: &[Question], limit: Duration, answer: fn(&Question) -> Answer) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = Vec::new();
        let mut queue: VecDeque<(String, VecDeque<usize>)> = VecDeque::new();
        let mut places = HashMap::new();
        for (index, question) in questions.iter().enumerate() {
            answers.push(match question.device() {
                None => Some(answer(question)),
                Some(device) if lock(&self.stuck).contains(&device) => Some(Err(given_up(&device))),
                Some(device) => {
                    let place = *places.entry(device.clone()).or_insert_with(|| {
                        queue.push_back((device, VecDeque::new()));
                        queue.len() - 1
                    });
                    queue[place].1.push_back(index);
                    None
                }
            });
        }
        let mut askers: Vec<Asker> = Vec::new();
        loop {
            self.bury();
            while askers.iter().filter(|asker| asker.heard.elapsed() < BUSY).count() < WORKERS
                && askers.len() + lock(&self.stuck).len() < MAX_WAITING
                && let Some((device, open)) = queue.pop_front()
            {
                match Asker::start(device, open, questions, answer) {
                    Ok(asker) => askers.push(asker),
                    Err((error, open)) => {
                        tracing::warn!(%error, "cannot start a process to query a device");
                        open.into_iter().for_each(|index| answers[index] = Some(Err(error.kind().into())));
                    }
                }
            }
            if askers.is_empty() {
                break;
            }
            wait(&askers, limit, !queue.is_empty());
            askers.retain_mut(|asker| {
                let goes_on = asker.listen(&mut answers);
                if !goes_on {
                    lock(&self.ended).push(asker.process);
                } else if asker.heard.elapsed() >= limit {
                    self.give_up(asker, limit, &mut answers);
                    return false;
                }
                goes_on
            });
        }
        if !queue.is_empty() {
            tracing::warn!(devices = queue.len(), "too many devices hang: the rest are skipped");
        }
        let unasked = || Err(io::Error::new(io::ErrorKind::TimedOut, "skipped, because too many devices hang"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unasked)).collect()
    }

    fn give_up(&self, asker: &Asker, limit: Duration, answers: &mut [Option<Answer>]) {
        tracing::warn!(
            device = asker.device,
            limit_s = limit.as_secs(),
            facts = asker.open.len(),
            "does not answer and is skipped: facts that only it has are missing"
        );
        // It may wait where no signal reaches it.
        let _ = kill(asker.process, Signal::SIGKILL);
        lock(&self.ended).push(asker.process);
        lock(&self.stuck).insert(asker.device.clone());
        asker.open.iter().for_each(|index| answers[*index] = Some(Err(given_up(&asker.device))));
    }

    /// Takes note of processes that have ended, without waiting for any.
    fn bury(&self) {
        let is_there =
            |process: &Pid| matches!(waitpid(*process, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive));
        lock(&self.ended).retain(is_there);
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        self.bury();
    }
}

impl Asker {
    fn start(
        device: String,
        open: VecDeque<usize>,
        questions: &[Question],
        answer: fn(&Question) -> Answer,
    ) -> Result<Self, (io::Error, VecDeque<usize>)> {
        let device_questions = open.iter().filter_map(|index| questions.get(*index));
        let work = |mut pipe: File| {
            for question in device_questions {
                if letter::send(&mut pipe, &answer(question)).is_err() {
                    break;
                }
            }
        };
        match kernel::fork::apart(work) {
            Ok((process, pipe)) => {
                let (letters, heard) = (Letters::default(), Instant::now());
                Ok(Self { device, process, pipe: pipe.into(), letters, open, heard })
            }
            Err(error) => Err((error, open)),
        }
    }

    /// Takes the available answers; false when there will be no more.
    fn listen(&mut self, answers: &mut [Option<Answer>]) -> bool {
        let mut bytes = [0; 4096];
        let error = loop {
            match self.pipe.read(&mut bytes) {
                Ok(0) => break io::ErrorKind::UnexpectedEof,
                Ok(len) => self.letters.push(&bytes[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break error.kind(),
            }
            while let Some(answer) = self.letters.next() {
                let Some(index) = self.open.pop_front() else { return false };
                answers[index] = Some(answer);
                self.heard = Instant::now();
            }
            if self.open.is_empty() {
                return false;
            }
        };
        let ended = || Err(io::Error::new(error, "the process that queried the device ended without an answer"));
        self.open.drain(..).for_each(|index| answers[index] = Some(ended()));
        false
    }
}

/// Waits until one of them answers, its time is over, or there is room for another.
fn wait(askers: &[Asker], limit: Duration, others_wait: bool) {
    let left = askers.iter().map(|asker| {
        let waited = asker.heard.elapsed();
        let left = limit.saturating_sub(waited);
        if others_wait && waited < BUSY { left.min(BUSY - waited) } else { left }
    });
    // Rounded up, or the last millisecond would be a busy loop.
    let left = left.min().unwrap_or_default() + Duration::from_millis(1);
    let mut pipes: Vec<_> = askers.iter().map(|asker| PollFd::new(asker.pipe.as_fd(), PollFlags::POLLIN)).collect();
    // An interrupted wait is a short one.
    let _ = poll(&mut pipes, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn given_up(device: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{device} hangs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// `hang…` never answers, `fail…` refuses, `die…` ends without an answer, all others give their name.
    fn fake(question: &Question) -> Answer {
        let device = question.device().unwrap_or_default();
        match &device[..device.len().min(4)] {
            "hang" => loop {
                thread::park();
            },
            "fail" => Err(io::ErrorKind::NotFound.into()),
            "dies" => panic!("as it shall"),
            "slow" => {
                thread::sleep(Duration::from_secs(1));
                Ok(device.into_bytes())
            }
            "long" => Ok(vec![7; 1 << 20]),
            _ => Ok(device.into_bytes()),
        }
    }

    fn sector(disk: &str) -> Question {
        Question::FirstSector { disk: disk.to_owned() }
    }

    #[test]
    fn disks_that_hang_cost_only_themselves() {
        let patience = Patience::default();
        let mut questions = vec![sector("hang0"), sector("fail0")];
        questions.extend((0..300).map(|n| sector(&if n % 30 == 0 { format!("hang{n}") } else { format!("sd{n}") })));
        questions.push(Question::ScsiPage { disk: "hang0".to_owned(), page: 0x83 });
        let answers = patience.ask_with(&questions, Duration::from_secs(5), fake);
        for (question, answer) in questions.iter().zip(answers) {
            let device = question.device().unwrap();
            match answer {
                Ok(bytes) => assert_eq!(bytes, device.as_bytes()),
                Err(error) if device.starts_with("hang") => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
                Err(error) => assert_eq!((device.as_str(), error.kind()), ("fail0", io::ErrorKind::NotFound)),
            }
        }
        // It is not asked a second time.
        let again = Question::ScsiPage { disk: "hang0".to_owned(), page: 0x80 };
        let error = patience.ask_with(&[again], Duration::from_secs(3600), fake).pop().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "hang0 hangs");
    }

    #[test]
    fn when_all_hang_it_ends_all_the_same() {
        let questions: Vec<_> = (0..300).map(|n| sector(&format!("hang{n}"))).collect();
        let answers = Patience::default().ask_with(&questions, Duration::from_millis(20), fake);
        assert_eq!(answers.len(), 300);
        assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::TimedOut)));
    }

    #[test]
    fn the_time_is_for_each_answer() {
        let questions: Vec<_> = (0..8).map(|page| Question::ScsiPage { disk: "slow".to_owned(), page }).collect();
        let answers = Patience::default().ask_with(&questions, Duration::from_secs(6), fake);
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|bytes| bytes == b"slow")), "{answers:?}");
    }

    #[test]
    fn long_answers_and_askers_that_die() {
        let questions = [sector("dies"), sector("long"), sector("sda")];
        let mut answers = Patience::default().ask_with(&questions, testkit::wait::LIMIT, fake).into_iter();
        assert_eq!(answers.next().unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(answers.next().unwrap().unwrap(), vec![7; 1 << 20]);
        assert_eq!(answers.next().unwrap().unwrap(), b"sda");
    }
}
