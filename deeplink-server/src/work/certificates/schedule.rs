//! When a certificate is ordered: pure arithmetic on unix milliseconds.

use deeplink_core::time::Timestamp;

/// Waits after consecutive failures, in minutes; the last one repeats. An authority that counts failed validations
/// allows about five per hour and name.
const RETRY_DELAYS_MINUTES: [i64; 6] = [1, 5, 30, 120, 720, 1_440];

/// When a certificate is renewed: a third of its lifetime is left then.
pub(super) fn renew_at(not_before: Timestamp, not_after: Timestamp) -> Timestamp {
    let lifetime = not_after.as_millis().saturating_sub(not_before.as_millis()).max(0);
    Timestamp::from_millis(not_after.as_millis().saturating_sub(lifetime / 3))
}

/// Milliseconds until the next try after this many failures in a row: from a minute up to a day.
pub(super) fn wait_after(failures: i64) -> i64 {
    let index = usize::try_from(failures.saturating_sub(1)).unwrap_or(0).min(RETRY_DELAYS_MINUTES.len() - 1);
    RETRY_DELAYS_MINUTES[index] * 60_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_lifetime_is_left() {
        for (from, until, renewed) in
            [(0, 90 * DAY, 60 * DAY), (0, 6 * DAY, 4 * DAY), (100 * DAY, 190 * DAY, 160 * DAY), (0, 1, 1)]
        {
            let at = renew_at(Timestamp::from_millis(from), Timestamp::from_millis(until));
            assert_eq!(at.as_millis(), renewed, "{from} to {until}");
        }
        let backwards = renew_at(Timestamp::from_millis(10), Timestamp::from_millis(5));
        assert_eq!(backwards.as_millis(), 5);
    }

    proptest::proptest! {
        #[test]
        fn renewal_never_waits_for_the_end(from in 0..100 * DAY, lifetime in 3..400 * DAY) {
            let until = from + lifetime;
            let at = renew_at(Timestamp::from_millis(from), Timestamp::from_millis(until)).as_millis();
            proptest::prop_assert!(from < at && at < until);
        }
    }

    #[test]
    fn waits_grow_from_a_minute_to_a_day() {
        let minutes: Vec<_> = (0..9).map(|failures| wait_after(failures) / 60_000).collect();
        assert_eq!(minutes, [1, 1, 5, 30, 120, 720, 1_440, 1_440, 1_440]);
        assert_eq!(wait_after(i64::MAX), DAY);
        // Tries at 0, 1, 6 and 36 minutes: fewer per hour than authorities allow.
        let tries =
            [1, 2, 3, 4].map(wait_after).iter().scan(0, |at, wait| Some(std::mem::replace(at, *at + wait))).count();
        assert!(tries <= 5);
    }
}
