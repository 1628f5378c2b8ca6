//! The dates of certificates: whether one is valid now, and dates in messages in place of seconds.

use std::error::Error;
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::{self, CertificateError};

use super::{TlsError, bad, certificates};

/// Checks that the certificates of a file are valid now.
///
/// # Errors
/// If the file cannot be read, or one of its certificates has expired or is not valid yet.
pub fn check(file: (&'static str, &Path)) -> Result<(), TlsError> {
    let now = UnixTime::now();
    certificates(file)?.iter().try_for_each(|certificate| valid(certificate, now).map_err(|why| bad(file, why)))
}

/// Says why a certificate is not valid at this time. Dates are the first thing that a path to a CA
/// is checked for, so no CA is needed.
fn valid(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), String> {
    let read = webpki::EndEntityCert::try_from(certificate).map_err(|error| error.to_string())?;
    match read.verify_for_usage(&[], &[], &[], now, webpki::KeyUsage::server_auth(), None, None) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Err(expired(not_after)),
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => Err(not_yet(not_before)),
        _ => Ok(()),
    }
}

fn expired(not_after: UnixTime) -> String {
    format!("the certificate expired on {}", date(not_after))
}

fn not_yet(not_before: UnixTime) -> String {
    format!("the certificate is not valid before {}, says this machine's clock", date(not_before))
}

/// `2026-11-25 04:39:04 UTC`.
fn date(time: UnixTime) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()));
    let text = at.map(|at| humantime::format_rfc3339_seconds(at).to_string());
    text.map_or_else(|| time.as_secs().to_string(), |text| text.replace('T', " ").replace('Z', " UTC"))
}

/// An error of TLS about dates, with dates; `None` for any other.
pub fn text(error: &(dyn Error + 'static)) -> Option<String> {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let tls = error.downcast_ref().or_else(|| inner?.downcast_ref::<rustls::Error>())?;
    let rustls::Error::InvalidCertificate(why) = tls else { return None };
    match why {
        CertificateError::ExpiredContext { not_after, .. } => Some(expired(*not_after)),
        CertificateError::NotValidYetContext { not_before, .. } => Some(not_yet(*not_before)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_dates() {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_000));
        assert_eq!(date(time), "2023-11-14 22:13:20 UTC");
        let why = CertificateError::ExpiredContext { time, not_after: time };
        let error = io::Error::other(rustls::Error::InvalidCertificate(why));
        assert_eq!(text(&error).as_deref(), Some("the certificate expired on 2023-11-14 22:13:20 UTC"));
        assert_eq!(text(&io::Error::other("else")), None);
    }
}
