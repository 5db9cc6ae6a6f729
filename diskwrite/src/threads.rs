//! Requests carried out by a few threads, where the kernel has no io_uring for us.

use crate::request::{Answer, Request};
use std::{
    fs::File,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{Builder, JoinHandle},
};

/// Each has one request under way; the rest waits in the queue.
const THREADS: usize = 8;

pub(crate) struct Threads {
    requests: Option<Sender<Request>>,
    answers: Receiver<Answer>,
    threads: Vec<JoinHandle<()>>,
    under_way: usize,
}

impl Threads {
    /// Starts them; fewer than wanted will do.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let file = Arc::new(file.try_clone()?);
        let (requests, queue) = channel::<Request>();
        let (answer, answers) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let (file, queue, answer) = (file.clone(), queue.clone(), answer.clone());
            let work = move || {
                loop {
                    let request = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(mut request) = request else { return };
                    let result = request.run(&file);
                    if answer.send(Answer { request, result }).is_err() {
                        return;
                    }
                }
            };
            match Builder::new().name(format!("disk {number}")).spawn(work) {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                Err(error) => tracing::debug!(%error, threads = threads.len(), "no more threads"),
            }
        }
        Ok(Self { requests: Some(requests), answers, threads, under_way: 0 })
    }

    /// See [`Target::start`](crate::request::Target::start).
    pub(crate) fn start(&mut self, request: Request) {
        // The threads go only when this does.
        if self.requests.as_ref().is_some_and(|requests| requests.send(request).is_ok()) {
            self.under_way += 1;
        }
    }

    /// See [`Target::next`](crate::request::Target::next).
    pub(crate) fn next(&mut self) -> Option<Answer> {
        self.under_way = self.under_way.checked_sub(1)?;
        self.answers.recv().ok()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.requests = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a disk thread panicked");
            }
        }
    }
}
