//! One run of an HTTP request.

use crate::outside::Run;

/// How much of an answer goes into the error of a request that fails.
const QUOTED: u64 = 500;

/// Sends the payload as JSON by POST. Any status of 2xx is a success. The header
/// Idempotency-Key is the same for all attempts at one run and no other.
pub fn run(run: &Run) -> Result<(), String> {
    let request = ureq::post(&run.target)
        .config()
        .timeout_global(Some(run.time_limit))
        .http_status_as_error(false)
        .build()
        .header("Content-Type", "application/json")
        .header("Idempotency-Key", run.name())
        .header("HWheel-Due", run.occurrence.to_string())
        .header("HWheel-Attempt", run.attempt.to_string());
    let answer = match &run.payload {
        Some(payload) => request.send(payload),
        None => request.send_empty(),
    };
    let mut answer = answer.map_err(|e| e.to_string())?;
    if answer.status().is_success() {
        return Ok(());
    }
    let body = answer
        .body_mut()
        .with_config()
        .limit(QUOTED)
        .lossy_utf8(true)
        .read_to_string();
    let body = body.unwrap_or_default().replace('\0', "\u{fffd}");
    Err(format!(
        "status {}: {}",
        answer.status().as_u16(),
        body.trim()
    ))
}
