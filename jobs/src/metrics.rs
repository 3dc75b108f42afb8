//! Counters of a node, its histogram of lateness, and the text for Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::LazyLock;

/// Ten buckets per decade, from 0.1 ms to 10^4 s; the last one has no upper bound.
pub const BUCKETS: usize = 81;

/// The highest lateness of a bucket.
pub fn bound_us(bucket: usize) -> f64 {
    100.0 * 10f64.powf(bucket as f64 / 10.0)
}

/// The upper bounds of all buckets but the last one. A search that computed them for each attempt
/// would cost more than everything else that is counted for it.
static BOUNDS: LazyLock<[f64; BUCKETS - 1]> = LazyLock::new(|| std::array::from_fn(bound_us));

fn bucket_of(late_us: i64) -> usize {
    BOUNDS.partition_point(|&bound| bound < late_us as f64)
}

/// The lateness in microseconds that a part of all attempts does not exceed. It is the
/// upper bound of a bucket, up to a quarter too high.
pub fn percentile(buckets: &[i64], part: f64) -> Option<f64> {
    let total: i64 = buckets.iter().sum();
    let wanted = (total as f64 * part).ceil().max(1.0) as i64;
    let mut seen = 0;
    buckets.iter().enumerate().find_map(|(bucket, count)| {
        seen += count;
        (seen >= wanted).then(|| bound_us(bucket))
    })
}

/// Counters. No other memory depends on them, so relaxed is enough.
pub struct Metrics {
    lateness: [AtomicU64; BUCKETS],
    late_us: AtomicU64,
    pub done: AtomicU64,
    pub retried: AtomicU64,
    pub dead: AtomicU64,
    pub cancelled: AtomicU64,
    /// Not fired, because the fence had changed.
    pub gone: AtomicU64,
    /// Refused by the database as not yet due.
    pub early: AtomicU64,
    pub claimed: AtomicU64,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics {
            lateness: [const { AtomicU64::new(0) }; BUCKETS],
            late_us: AtomicU64::new(0),
            done: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            dead: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            early: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
        }
    }

    /// Counts an attempt that started this late.
    pub fn late(&self, us: i64) {
        self.lateness[bucket_of(us)].fetch_add(1, Relaxed);
        self.late_us.fetch_add(us.max(0) as u64, Relaxed);
    }

    pub fn lateness(&self) -> Vec<i64> {
        self.lateness
            .iter()
            .map(|count| count.load(Relaxed) as i64)
            .collect()
    }

    pub fn failed(&self) -> i64 {
        (self.retried.load(Relaxed) + self.dead.load(Relaxed)) as i64
    }

    pub fn prometheus(&self, held: usize, offset_s: f64) -> String {
        let mut text = String::new();
        for (name, help, count) in [
            ("done", "Attempts that succeeded.", &self.done),
            (
                "retried",
                "Attempts that failed and are tried again.",
                &self.retried,
            ),
            ("dead", "Attempts that failed for good.", &self.dead),
            (
                "cancelled",
                "Attempts that ended because somebody had cancelled their job.",
                &self.cancelled,
            ),
            (
                "gone",
                "Jobs that had passed on when their timer expired.",
                &self.gone,
            ),
            (
                "early",
                "Jobs that the database refused as not yet due.",
                &self.early,
            ),
            ("claimed", "Jobs claimed.", &self.claimed),
        ] {
            let name = format!("hwheel_jobs_{name}_total");
            family(
                &mut text,
                &name,
                "counter",
                help,
                &[(String::new(), count.load(Relaxed) as f64)],
            );
        }
        let one = |value| [(String::new(), value)];
        family(
            &mut text,
            "hwheel_jobs_held",
            "gauge",
            "Jobs armed or due here.",
            &one(held as f64),
        );
        let help = "The database's clock less the node's.";
        family(
            &mut text,
            "hwheel_jobs_clock_offset_seconds",
            "gauge",
            help,
            &one(offset_s),
        );
        histogram(
            &mut text,
            &self.lateness(),
            Some(self.late_us.load(Relaxed) as f64 / 1e6),
        );
        text
    }
}

/// Appends a family of samples, each with its labels.
pub fn family(text: &mut String, name: &str, kind: &str, help: &str, samples: &[(String, f64)]) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

/// Appends the histogram of lateness, with the sum if it is known.
pub fn histogram(text: &mut String, buckets: &[i64], sum_s: Option<f64>) {
    let name = "hwheel_jobs_lateness_seconds";
    let help = "From the due time of an attempt to its start.";
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
    let mut seen = 0;
    for (bucket, count) in buckets.iter().enumerate().take(BUCKETS - 1) {
        seen += count;
        let _ = writeln!(
            text,
            "{name}_bucket{{le=\"{:.6}\"}} {seen}",
            bound_us(bucket) / 1e6
        );
    }
    let total: i64 = buckets.iter().sum();
    let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {total}");
    if let Some(sum) = sum_s {
        let _ = writeln!(text, "{name}_sum {sum}");
    }
    let _ = writeln!(text, "{name}_count {total}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let metrics = Metrics::new();
        for us in [-5, 100, 900, 1_000, 1_000_000] {
            metrics.late(us);
        }
        let buckets = metrics.lateness();
        assert_eq!(buckets.iter().sum::<i64>(), 5);
        assert_eq!(percentile(&buckets, 0.4), Some(100.0));
        assert_eq!(percentile(&buckets, 0.8).map(f64::round), Some(1000.0));
        assert_eq!(percentile(&buckets, 1.0).map(f64::round), Some(1_000_000.0));
        assert_eq!(percentile(&[0; BUCKETS], 0.5), None);
    }

    #[test]
    fn what_is_later_than_all_bounds_is_counted() {
        assert_eq!(bucket_of(i64::MAX), BUCKETS - 1);
        let metrics = Metrics::new();
        metrics.late(i64::MAX);
        assert!(metrics.prometheus(0, 0.0).contains("le=\"+Inf\"} 1"));
    }
}
