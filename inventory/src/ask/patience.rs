//! Answers within a time. A disk that hangs holds up neither the others nor the inventory: it is given up and not asked again.

use super::{Question, devices};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

/// A healthy disk answers within milliseconds, one that has to spin up within seconds.
const LIMIT: Duration = Duration::from_secs(3);
/// Devices that are asked at the same time.
const WORKERS: usize = 8;
/// Threads given up to devices that hang. They cost a stack each, and end with the process.
const MAX_STUCK: usize = 64;

/// Asks the running system, and remembers what hung.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    stuck: Mutex<BTreeSet<String>>,
}

/// A worker's word to who waits.
enum Report {
    Begun { index: usize },
    Done { index: usize, answer: io::Result<Vec<u8>> },
}

/// Questions to be answered, with their places.
type Queue = Arc<Mutex<VecDeque<(usize, Question)>>>;

impl Patience {
    /// The answers to all, in their order. Takes no longer than the slowest device that still answers, or a limit.
    pub fn ask_all(&self, questions: &[Question]) -> Vec<io::Result<Vec<u8>>> {
        self.ask_with(questions, LIMIT, devices::answer)
    }

    fn ask_with(
        &self,
        questions: &[Question],
        limit: Duration,
        answer: fn(&Question) -> io::Result<Vec<u8>>,
    ) -> Vec<io::Result<Vec<u8>>> {
        let mut answers: Vec<Option<io::Result<Vec<u8>>>> = Vec::new();
        let mut queue = VecDeque::new();
        for (index, question) in questions.iter().enumerate() {
            answers.push(match question.device() {
                // The kernel's own tables need no patience.
                None => Some(answer(question)),
                Some(device) if self.stuck().contains(&device) => Some(Err(given_up(&device))),
                Some(_) => {
                    queue.push_back((index, question.clone()));
                    None
                }
            });
        }
        let mut open = queue.len();
        let queue: Queue = Arc::new(Mutex::new(queue));
        let (sender, reports) = mpsc::channel();
        for _ in 0..open.min(WORKERS) {
            start(&queue, &sender, answer);
        }
        let mut running: BTreeMap<usize, Instant> = BTreeMap::new();
        while open > 0 {
            // Workers begin at once; before the first has, the limit is as good as any.
            let next = running.values().min().map_or(limit, |begun| limit.saturating_sub(begun.elapsed()));
            match reports.recv_timeout(next) {
                Ok(Report::Begun { index }) => {
                    running.insert(index, Instant::now());
                }
                Ok(Report::Done { index, answer }) => {
                    // One that comes too late stays given up: what was said of the disk stays said.
                    if running.remove(&index).is_some() {
                        answers[index] = Some(answer);
                        open -= 1;
                    }
                }
                // No thread could be started.
                Err(_) if running.is_empty() => break,
                Err(_) => {
                    let late: Vec<usize> =
                        running.iter().filter(|(_, begun)| begun.elapsed() >= limit).map(|(index, _)| *index).collect();
                    for index in late {
                        running.remove(&index);
                        let device = questions[index].device().unwrap_or_default();
                        tracing::warn!(device, limit_s = limit.as_secs(), "does not answer and is left alone");
                        answers[index] = Some(Err(given_up(&device)));
                        open -= 1;
                        let stuck = {
                            let mut stuck = self.stuck();
                            stuck.insert(device.clone());
                            lock(&queue).retain(|(index, question)| {
                                let is_other = question.device().as_ref() != Some(&device);
                                if !is_other {
                                    answers[*index] = Some(Err(given_up(&device)));
                                    open -= 1;
                                }
                                is_other
                            });
                            stuck.len()
                        };
                        if stuck < MAX_STUCK {
                            start(&queue, &sender, answer);
                        }
                    }
                }
            }
        }
        if open > 0 {
            tracing::warn!(questions = open, "too many devices hang: the rest is not asked");
        }
        let unasked = || Err(io::Error::new(io::ErrorKind::TimedOut, "not asked, since too many devices hang"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unasked)).collect()
    }

    fn stuck(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        lock(&self.stuck)
    }
}

/// One more thread that takes questions until there are none. It is not joined: it may never end.
fn start(queue: &Queue, sender: &Sender<Report>, answer: fn(&Question) -> io::Result<Vec<u8>>) {
    let (queue, sender) = (Arc::clone(queue), sender.clone());
    let work = move || {
        loop {
            let Some((index, question)) = lock(&queue).pop_front() else { break };
            let heard = sender.send(Report::Begun { index }).is_ok()
                && sender.send(Report::Done { index, answer: answer(&question) }).is_ok();
            if !heard {
                break;
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("device".to_owned()).stack_size(128 << 10).spawn(work) {
        tracing::warn!(%error, "cannot start a thread to ask devices with");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn given_up(device: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{device} hangs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `hang…` never answers, `fail…` refuses, all others give their name.
    fn fake(question: &Question) -> io::Result<Vec<u8>> {
        let device = question.device().unwrap_or_default();
        if device.starts_with("hang") {
            loop {
                thread::park();
            }
        }
        if device.starts_with("fail") { Err(io::ErrorKind::NotFound.into()) } else { Ok(device.into_bytes()) }
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
        let answers = patience.ask_with(&questions, Duration::from_millis(200), fake);
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
        let questions: Vec<_> = (0..500).map(|n| sector(&format!("hang{n}"))).collect();
        let answers = Patience::default().ask_with(&questions, Duration::from_millis(20), fake);
        assert_eq!(answers.len(), 500);
        assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::TimedOut)));
    }
}
