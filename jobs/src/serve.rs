//! HTTP for the page and for the metrics: hyper, with limits on what a client may take.

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::StatusCode;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

pub type Request = hyper::Request<Bytes>;
pub type Response = hyper::Response<String>;

/// Connections at once. One more takes the place of the client that has been slow to send its
/// request for the longest time, and otherwise waits: slow clients keep nobody out.
const CONNECTIONS: usize = 64;

/// Answers that are computed at once.
const THREADS: usize = 4;

/// How long a client may take to send the head of its request, and then the body.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// The lines of the head have at most this many bytes, and so has the body.
const SIZE: usize = 16 * 1024;

/// How long a connection lives. Each has one request.
const LIFE: Duration = Duration::from_secs(60);

/// Answers requests until the process ends.
pub fn serve(
    listener: TcpListener,
    answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()?;
    let answer = Arc::new(answer);
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut asking: VecDeque<(Arc<AtomicBool>, AbortHandle)> = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // No descriptor is left, perhaps.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // A flag that one thread sets for itself.
            asking.retain(|(has_asked, task)| !has_asked.load(Relaxed) && !task.is_finished());
            if room.available_permits() == 0 {
                if let Some((_, slowest)) = asking.pop_front() {
                    slowest.abort();
                }
            }
            let place = room.clone().acquire_owned().await;
            let answer = answer.clone();
            let has_asked = Arc::new(AtomicBool::new(false));
            let flag = has_asked.clone();
            let service = service_fn(move |request| respond(request, flag.clone(), answer.clone()));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(SIZE)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let task = tokio::spawn(async move {
                let _place = place;
                let _ = tokio::time::timeout(LIFE, connection).await;
            });
            asking.push_back((has_asked, task.abort_handle()));
        }
    })
}

async fn respond(
    request: hyper::Request<Incoming>,
    has_asked: Arc<AtomicBool>,
    answer: Arc<impl Fn(&Request) -> Response + Send + Sync + 'static>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(HEAD_TIME, Limited::new(body, SIZE).collect()).await;
    has_asked.store(true, Relaxed);
    let response = match body {
        Ok(Ok(body)) => {
            let request = Request::from_parts(head, body.to_bytes());
            // The answer may wait for the database.
            tokio::task::spawn_blocking(move || answer(&request))
                .await
                .unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, "no answer\n"))
        }
        Ok(Err(_)) => plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long\n"),
        Err(_) => plain(StatusCode::REQUEST_TIMEOUT, "the body does not come\n"),
    };
    Ok(response.map(|text| Full::new(Bytes::from(text))))
}

/// A response of plain text.
pub fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    of_type("text/plain; charset=utf-8", status, text)
}

/// A response of a media type.
pub fn of_type(kind: &'static str, status: StatusCode, text: impl Into<String>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
