//! What a certificate says of itself: for whom, by whom, until when.

use super::files::TlsError;
use core::fmt;
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use webpki::EndEntityCert;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Of one of our certificates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFacts {
    /// Where it was read.
    pub file: PathBuf,
    /// The host names that it is for.
    pub names: Vec<String>,
    /// From when on it is valid.
    pub not_before: SystemTime,
    /// Until when.
    pub not_after: SystemTime,
    /// Who signed the last certificate in the file, if that one is not signed by itself or missing its predecessor.
    gap: Option<String>,
}

/// What a client would not like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateProblem {
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// It names no host.
    NoName,
    /// The certificates in the file do not lead from one to the next: this one's signer is not the one that follows.
    BrokenChain(String),
}

impl fmt::Display for CertificateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("it has expired: clients will refuse it; renew it"),
            Self::NotYetValid => f.write_str("it is not valid yet: set the clock, or wait"),
            Self::NoName => f.write_str(
                "it names no host (subjectAltName): clients will refuse it; have it made for the names that they use",
            ),
            Self::BrokenChain(signer) => write!(
                f,
                "its chain is incomplete: {signer:?} has signed it, whose certificate does not follow in the file; add it \
                 behind, or clients that do not know it will refuse"
            ),
        }
    }
}

/// By how many seconds a time is after 1970.
fn time(seconds: Duration) -> SystemTime {
    UNIX_EPOCH + seconds
}

impl CertificateFacts {
    /// Of the first certificate in this file.
    pub(super) fn of(file: &Path, chain: &[CertificateDer<'_>]) -> Result<Self, TlsError> {
        let expected = "an X.509 certificate in PEM";
        let parse = |der: &CertificateDer<'_>| {
            Certificate::from_der(der).map_err(|error| TlsError::file(file, &error, expected))
        };
        let parsed = chain.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let Some((leaf, first)) = chain.first().zip(parsed.first()) else {
            return Err(TlsError::file(file, &"no certificate in it", expected));
        };
        let entity = EndEntityCert::try_from(leaf).map_err(|error| TlsError::file(file, &error, expected))?;
        let names = entity.valid_dns_names().map(str::to_owned).collect();
        let validity = &first.tbs_certificate().validity();
        let signer = |certificate: &Certificate| certificate.tbs_certificate().issuer().to_string();
        let subject = |certificate: &Certificate| certificate.tbs_certificate().subject().to_string();
        let unlinked = parsed.windows(2).find(|pair| signer(&pair[0]) != subject(&pair[1]));
        // A certificate alone that has signed itself is trusted as it is, or not at all.
        let alone = (parsed.len() == 1 && signer(first) != subject(first)).then(|| signer(first));
        Ok(Self {
            file: file.to_owned(),
            names,
            not_before: time(validity.not_before.to_unix_duration()),
            not_after: time(validity.not_after.to_unix_duration()),
            gap: unlinked.map(|pair| signer(&pair[0])).or(alone),
        })
    }

    /// What is wrong with it at this time.
    pub fn problems(&self, now: SystemTime) -> Vec<CertificateProblem> {
        let checks = [
            (now > self.not_after).then_some(CertificateProblem::Expired),
            (now < self.not_before).then_some(CertificateProblem::NotYetValid),
            self.names.is_empty().then_some(CertificateProblem::NoName),
            self.gap.clone().map(CertificateProblem::BrokenChain),
        ];
        checks.into_iter().flatten().collect()
    }

    /// In how many seconds it expires; negative: it has.
    pub fn seconds_left(&self, now: SystemTime) -> i64 {
        match self.not_after.duration_since(now) {
            Ok(left) => left.as_secs() as i64,
            Err(over) => -(over.duration().as_secs() as i64),
        }
    }
}
