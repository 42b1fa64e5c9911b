//! Times of processes and what is told about many of them.

use std::process::Command;
use std::time::{Duration, Instant};

use fmail_api::Result;

use super::stage::succeed;

/// How long a command takes from before it is started until it has been waited for.
pub fn time(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    succeed(command)?;
    Ok(start.elapsed())
}

/// Times several commands that take turns and gives the median of each. A first turn of each is not counted.
pub fn medians<const N: usize>(rounds: usize, mut commands: [Command; N]) -> Result<[Duration; N]> {
    let mut samples: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for round in 0..=rounds {
        for (command, samples) in commands.iter_mut().zip(&mut samples) {
            let taken = time(command)?;
            if round > 0 {
                samples.push(taken.as_secs_f64());
            }
        }
    }
    Ok(samples.map(|mut samples| Duration::from_secs_f64(quantile(&mut samples, 0.5))))
}

/// The value that this share of the samples does not exceed; the median is the one at 0.5.
pub fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let last = samples.len().saturating_sub(1);
    samples.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
}

/// How many times as long.
pub fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_the_sorted_samples() {
        let mut samples: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut samples, 0.5), 50.0);
        assert_eq!(quantile(&mut samples, 0.99), 99.0);
        assert_eq!(quantile(&mut [-1.0], 0.99), -1.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
