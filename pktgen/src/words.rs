//! Numbers and lengths of time as the command line has them.

use std::time::Duration;

/// A whole number with `k`, `M` or `G` behind it.
pub fn count(text: &str) -> Result<u64, String> {
    weir::text::scaled(&text.replace('_', ""), "")
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("{text:?} is no number; write 1000, 10k or 2M"))
}

/// A part of one: `0.01` or `1%`.
pub fn share(text: &str) -> Result<f64, String> {
    weir::text::rate(text).ok_or_else(|| format!("{text:?} is no share; write 0.01 or 1%, and 100% for all"))
}

/// A length of time: `500ms`, `2s`.
pub fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{text:?}: {error}; write 500ms or 2s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_say() {
        assert_eq!((count("10k"), count("1_000"), count("2M")), (Ok(10_000), Ok(1000), Ok(2_000_000)));
        assert!(count("0").is_err() && count("x").is_err() && count("-1").is_err());
        assert_eq!((share("1%"), share("0.5"), share("100%")), (Ok(0.01), Ok(0.5), Ok(1.0)));
        assert!(share("1").is_err() && share("2").is_err() && share("nan").is_err());
    }
}
