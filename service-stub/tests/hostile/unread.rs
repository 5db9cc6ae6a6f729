//! Bodies that no handler reads: they are read all the same, since a connection that closes under one may lose the answer.

use super::common::{API, Files, Running};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, StatusCode};
use http_body::Frame;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use service_stub::auth::{Auth, keys::SigningKey};
use service_stub::server;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    Nothing,
    Part,
    All,
}

/// A body of two pieces, of which nothing has arrived with the head.
struct Late {
    polls: u32,
    read: Arc<Mutex<Read>>,
}

impl HttpBody for Late {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.polls += 1;
        *self.read.lock().unwrap() = if self.polls > 4 { Read::All } else { Read::Part };
        match self.polls {
            1 | 3 => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            2 | 4 => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"--"))))),
            _ => Poll::Ready(None),
        }
    }
}

/// The answer's status, and how much of the body was read when it came.
fn send(running: &Running, method: &str, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Read) {
    let router = TowerToHyperService::new(server::router(running.service.clone()));
    let read = Arc::new(Mutex::new(Read::Nothing));
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::new(Late { polls: 0, read: read.clone() })).unwrap();
    let runtime = server::runtime().unwrap();
    let status = runtime.block_on(async { router.call(request).await.unwrap().status() });
    let read = *read.lock().unwrap();
    (status, read)
}

#[test]
fn a_refused_requests_body_is_read_before_the_answer() {
    let running = Running::start(Files::default());
    let secured =
        Running::start(Files { auth: Auth::Local(Arc::new(SigningKey::generate().unwrap().0)), ..Files::default() });
    let logs = format!("{API}/v2/clusters/69396def-4192-dbc7-5c01-819e7f27b01b/logs?logs_type");
    let form = ("content-type", "multipart/form-data; boundary=XX");
    let json = ("content-type", "application/json");
    for (running, method, path, headers, status) in [
        (&running, "POST", format!("{logs}=all"), &[form][..], 400),
        (&running, "POST", format!("{logs}=controller"), &[form], 404),
        (&running, "POST", format!("{logs}=controller"), &[json], 400),
        (&running, "POST", format!("{API}/v2/clusters?%ff"), &[json], 400),
        (&running, "POST", format!("{API}/v2/nothing"), &[json], 404),
        (&running, "DELETE", format!("{API}/v2/clusters"), &[json], 405),
        (&running, "POST", format!("{API}/v2/clusters"), &[json, ("host", "elsewhere.example")], 421),
        (&secured, "POST", format!("{API}/v2/clusters"), &[json], 401),
    ] {
        let expected = (StatusCode::from_u16(status).unwrap(), Read::All);
        assert_eq!(send(running, method, &path, headers), expected, "{method} {path} {headers:?}");
    }
}

#[test]
fn a_body_that_waits_to_be_asked_for_is_not_asked_for() {
    let running = Running::start(Files::default());
    let headers = [("content-type", "application/json"), ("expect", "100-continue")];
    let path = format!("{API}/v2/nothing");
    assert_eq!(send(&running, "POST", &path, &headers), (StatusCode::NOT_FOUND, Read::Nothing));
}
