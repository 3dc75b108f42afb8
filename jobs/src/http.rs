//! One run of an HTTP request.

use crate::connect::system_authorities;
use crate::outside::Run;
use crate::stop::Stop;
use iri_string::format::ToDedicatedString;
use iri_string::types::{UriReferenceStr, UriStr, UriString};
use jiff::fmt::rfc2822;
use jiff::Timestamp;
use rustls::crypto::ring;
use std::io::Read as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::http::{HeaderMap, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// How much of an answer goes into the error of a request that fails.
const QUOTED: u64 = 500;

/// How many times a request may be sent elsewhere.
const REDIRECTS: usize = 5;

/// The longest time that an answer may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// A request that was no success.
#[derive(Debug, PartialEq)]
pub struct Failed {
    pub error: String,
    /// How long the next attempt has to wait at least, if the answer says so.
    pub wait: Option<Duration>,
}

/// Sends the payload as JSON by POST. Any status of 2xx is a success. 307 and 308 are
/// followed, because they keep the method and the body. The header Idempotency-Key is the
/// same for all attempts at one run, as long as the job stays what it is, and no other.
pub fn run(run: &Run, stop: &Stop) -> Result<(), Failed> {
    send(run, stop).map_err(|failed| Failed {
        error: if stop.is_asked() {
            "the connection was closed: somebody has cancelled the job".to_owned()
        } else {
            without_secrets(failed.error, run)
        },
        ..failed
    })
}

fn send(run: &Run, stop: &Stop) -> Result<(), Failed> {
    let failed = |error: String| Failed { error, wait: None };
    let agent = agent();
    stop.closes(&agent);
    let target = UriStr::new(&run.target)
        .ok()
        .filter(|target| has_a_port(target))
        .ok_or_else(|| failed("this is no URL".to_owned()))?;
    let end = Instant::now() + run.time_limit;
    let mut place: UriString = target.to_owned();
    for _ in 0..=REDIRECTS {
        let mut answer =
            post(&agent, run, &place, is_same_origin(target, &place), end).map_err(failed)?;
        let status = answer.status().as_u16();
        match (status, header(answer.headers(), "location")) {
            (200..=299, _) => return Ok(()),
            (307 | 308, Some(location)) => {
                let next = resolve(&place, location);
                let next = next.ok_or_else(|| failed(format!("status {status} to no URL")))?;
                if place.scheme_str() == "https" && next.scheme_str() == "http" {
                    return Err(failed(format!("status {status} from https to http")));
                }
                place = next;
            }
            (300..=399, Some(location)) => {
                let place =
                    resolve(&place, location).map_or(String::new(), |to| shown(to.as_str()));
                return Err(failed(format!(
                    "status {status} to {place}: only 307 and 308 are followed"
                )));
            }
            _ => {
                let wait = header(answer.headers(), "retry-after").and_then(wait);
                let mut body = Vec::new();
                let mut begin = answer.body_mut().as_reader().take(QUOTED);
                // The bytes before an error count.
                let _ = begin.read_to_end(&mut body);
                // PostgreSQL has no text with a zero byte.
                let body = String::from_utf8_lossy(&body).replace('\0', "\u{fffd}");
                let body = body.trim();
                let colon = if body.is_empty() { "" } else { ": " };
                let error = format!("status {status}{colon}{body}");
                return Err(Failed { error, wait });
            }
        }
    }
    Err(failed(format!("more than {REDIRECTS} redirects")))
}

/// The headers of the user, which may be secrets, go only to the place that the user named.
fn post(
    agent: &Agent,
    run: &Run,
    place: &UriStr,
    is_named: bool,
    end: Instant,
) -> Result<Response<Body>, String> {
    let left = end.saturating_duration_since(Instant::now());
    let mut request = agent
        .post(place.as_str())
        .config()
        // Zero would be no limit.
        .timeout_global(Some(left.max(Duration::from_millis(1))))
        .build()
        .header("Idempotency-Key", run.name())
        .header("HWheel-Due", run.occurrence.to_string())
        .header("HWheel-Attempt", run.attempt.to_string());
    if let Some(traceparent) = &run.traceparent {
        request = request.header("traceparent", traceparent);
    }
    let headers = run.headers.iter().filter(|_| is_named);
    let mut has_type = false;
    for (name, text) in headers {
        has_type |= name.eq_ignore_ascii_case("content-type");
        request = request.header(name, text);
    }
    if !has_type {
        request = request.header("Content-Type", "application/json");
    }
    let answer = match &run.payload {
        Some(payload) => request.send(payload),
        None => request.send_empty(),
    };
    answer.map_err(|e| e.to_string())
}

/// An agent for one run: to shut it down closes the connection of that run. It trusts the
/// authorities of the system.
fn agent() -> Agent {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        // Without authorities requests without TLS work all the same.
        let roots = system_authorities().unwrap_or_else(|why| {
            log::warn!("no request with https can work: {why}");
            Vec::new()
        });
        let roots: Vec<_> = roots
            .iter()
            .map(|root| Certificate::from_der(root).to_owned())
            .collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("hwheel-jobs/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // A server may have closed a connection that was kept.
            .max_idle_connections(0)
            .build()
    });
    Agent::new_with_config(config.clone())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn resolve(place: &UriStr, location: &str) -> Option<UriString> {
    let location = UriReferenceStr::new(location).ok()?;
    let next = location
        .resolve_against(place.to_absolute())
        .to_dedicated_string();
    let is_web = matches!(next.scheme_str(), "http" | "https");
    (is_web && next.authority_str().is_some() && has_a_port(&next)).then_some(next)
}

/// Whether the port, if the URL names one, is one that there is. A client would take the one of
/// the scheme instead.
fn has_a_port(uri: &UriStr) -> bool {
    let port = uri
        .authority_components()
        .and_then(|authority| authority.port());
    port.is_none_or(|port| port.is_empty() || port.parse().is_ok_and(|port: u16| port > 0))
}

fn is_same_origin(one: &UriStr, two: &UriStr) -> bool {
    let origin = |uri: &UriStr| {
        let authority = uri.authority_components()?;
        let default = if uri.scheme_str() == "https" {
            "443"
        } else {
            "80"
        };
        let port = authority.port().filter(|port| !port.is_empty());
        let host = authority.host().to_lowercase();
        Some((
            uri.scheme_str().to_owned(),
            host,
            port.unwrap_or(default).to_owned(),
        ))
    };
    origin(one) == origin(two)
}

/// Seconds, or a date.
fn wait(text: &str) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = rfc2822::parse(text).ok()?.timestamp();
            // One in the past is no time to wait.
            date.duration_since(Timestamp::now()).try_into().ok()?
        }
    };
    Some(wait.min(LONGEST_WAIT))
}

/// A URL without the name and password that it may have.
pub fn shown(url: &str) -> String {
    let authority_end = |rest: &str| rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match url.split_once("://") {
        Some((scheme, rest)) => match rest[..authority_end(rest)].rfind('@') {
            Some(at) => format!("{scheme}://***{}", &rest[at..]),
            None => url.to_owned(),
        },
        None => url.to_owned(),
    }
}

/// An answer may repeat what was sent, and the error is stored, logged and listed.
fn without_secrets(mut error: String, run: &Run) -> String {
    let password = UriStr::new(&run.target)
        .ok()
        .and_then(|uri| uri.authority_components()?.userinfo()?.split_once(':'))
        .map_or("", |(_, password)| password);
    let headers = run.headers.iter().map(|(_, text)| text.as_str());
    for text in headers.chain([password]) {
        // "Bearer" is no secret, and neither is "1".
        let words = text.split_whitespace().filter(|word| word.len() >= 8);
        for secret in std::iter::once(text)
            .filter(|text| text.len() >= 4)
            .chain(words)
        {
            error = error.replace(secret, "***");
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> UriString {
        UriString::try_from(text).unwrap()
    }

    #[test]
    fn a_location_is_relative_to_its_url() {
        let place = uri("https://u:p@a.example/x/y?q");
        for (location, expected) in [
            ("https://b.example/z", Some("https://b.example/z")),
            ("//b.example/z", Some("https://b.example/z")),
            ("/z?r", Some("https://u:p@a.example/z?r")),
            ("z", Some("https://u:p@a.example/x/z")),
            ("../z", Some("https://u:p@a.example/z")),
            (
                "https://b.example:65535/z",
                Some("https://b.example:65535/z"),
            ),
            ("https://b.example:65536/z", None),
            ("https://b.example:0/z", None),
            ("ftp://a/z", None),
            ("mailto:x", None),
            ("a b", None),
        ] {
            let next = resolve(&place, location);
            assert_eq!(
                next.as_ref().map(|uri| uri.as_str()),
                expected,
                "{location}"
            );
        }
    }

    #[test]
    fn the_origin_is_scheme_host_and_port() {
        let is_same = |one: &str, two: &str| is_same_origin(&uri(one), &uri(two));
        assert!(is_same("https://A.example/x", "https://a.example:443/y"));
        assert!(is_same("http://u@a/x", "http://a:80/y"));
        assert!(!is_same("http://a/x", "https://a/x"));
        assert!(!is_same("http://a/x", "http://a:8080/x"));
        assert!(!is_same("http://a/x", "http://b.a/x"));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(wait("120"), Some(Duration::from_secs(120)));
        assert_eq!(wait("99999999"), Some(LONGEST_WAIT));
        assert_eq!(wait("Fri, 31 Dec 1999 23:59:59 GMT"), None);
        let soon = Timestamp::now() + Duration::from_secs(100);
        let text = soon.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let seconds = wait(&text).unwrap().as_secs();
        assert!((97..=100).contains(&seconds), "{text}: {seconds}");
        for text in ["", "soon", "-1", "1.5"] {
            assert_eq!(wait(text), None);
        }
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, expected) in [
            ("https://u:p@a.example/x@y", "https://***@a.example/x@y"),
            ("https://a.example/x@y?z", "https://a.example/x@y?z"),
            ("https://u@a.example", "https://***@a.example"),
            ("make-report", "make-report"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }
}
