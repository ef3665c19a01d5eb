//! Facts about certificates: names, issuer, validity.

use super::files::TlsError;
use core::fmt;
use rustls::pki_types::CertificateDer;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use webpki::EndEntityCert;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Remaining days below which a certificate is reported: two weeks to renew it.
const DAYS_LEFT: u64 = 14;

/// Facts about one of our certificates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFacts {
    /// File.
    pub file: PathBuf,
    /// Host names and addresses that it is valid for.
    pub names: Vec<String>,
    /// Start of its validity.
    pub not_before: SystemTime,
    /// End of its validity.
    pub not_after: SystemTime,
    /// Issuer that the chain lacks.
    gap: Option<String>,
}

/// Fault for which clients may reject a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateProblem {
    /// The certificate has expired.
    Expired,
    /// The certificate expires in less than this number of days.
    Expires(u64),
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate names no host.
    NoName,
    /// A certificate in the file is not issued by the next one; names the missing issuer.
    BrokenChain(String),
}

impl fmt::Display for CertificateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("it has expired: clients will refuse it; renew it"),
            Self::Expires(days) => write!(f, "it expires in less than {days} days; renew it"),
            Self::NotYetValid => f.write_str("it is not valid yet: set the clock, or wait"),
            Self::NoName => f.write_str(
                "it names no host (subjectAltName): clients will refuse it; issue it for the names that they use",
            ),
            Self::BrokenChain(signer) => write!(
                f,
                "its chain is incomplete: the certificate of its issuer {signer:?} does not follow in the file; \
                 append it, \
                 or clients that do not have it will refuse the connection"
            ),
        }
    }
}

/// Names of authorities, as far as they can be read.
pub(super) fn subjects(certificates: &[CertificateDer<'_>]) -> BTreeSet<String> {
    let parsed = certificates.iter().filter_map(|der| Certificate::from_der(der).ok());
    parsed.map(|certificate| certificate.tbs_certificate().subject().to_string()).collect()
}

/// IP addresses that a certificate is valid for (RFC 5280 §4.2.1.6).
fn addresses(certificate: &Certificate) -> Vec<String> {
    let alternatives = certificate.tbs_certificate().get_extension::<SubjectAltName>();
    let Ok(Some((_, SubjectAltName(names)))) = alternatives else { return Vec::new() };
    let address = |name: &GeneralName| {
        let GeneralName::IpAddress(octets) = name else { return None };
        let octets = octets.as_bytes();
        let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
        Some(v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()?.to_string())
    };
    names.iter().filter_map(address).collect()
}

/// Time that many seconds after 1970.
fn time(seconds: Duration) -> SystemTime {
    UNIX_EPOCH + seconds
}

impl CertificateFacts {
    /// Facts about the first certificate in this file; `known` are the names of known authorities.
    pub(super) fn of(
        file: &Path,
        chain: &[CertificateDer<'_>],
        known: &BTreeSet<String>,
    ) -> Result<Self, TlsError> {
        let expected = "an X.509 certificate in PEM";
        let parse = |der: &CertificateDer<'_>| {
            Certificate::from_der(der).map_err(|error| TlsError::file(file, &error, expected))
        };
        let parsed = chain.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let Some((leaf, first)) = chain.first().zip(parsed.first()) else {
            return Err(TlsError::file(file, &"no certificate in it", expected));
        };
        let entity = EndEntityCert::try_from(leaf).map_err(|error| TlsError::file(file, &error, expected))?;
        let names = entity.valid_dns_names().map(str::to_owned).chain(addresses(first)).collect();
        let validity = &first.tbs_certificate().validity();
        let signer = |certificate: &Certificate| certificate.tbs_certificate().issuer().to_string();
        let subject = |certificate: &Certificate| certificate.tbs_certificate().subject().to_string();
        let unlinked = parsed.windows(2).find(|pair| signer(&pair[0]) != subject(&pair[1]));
        // The last certificate must be self-signed, or issued by an authority that we know.
        let last = parsed.last().filter(|last| signer(last) != subject(last)).map(signer);
        let unknown = last.filter(|signer| !known.is_empty() && !known.contains(signer));
        Ok(Self {
            file: file.to_owned(),
            names,
            not_before: time(validity.not_before.to_unix_duration()),
            not_after: time(validity.not_after.to_unix_duration()),
            gap: unlinked.map(|pair| signer(&pair[0])).or(unknown),
        })
    }

    /// Present and imminent faults at this time.
    pub fn problems(&self, now: SystemTime) -> Vec<CertificateProblem> {
        let end = match self.not_after.duration_since(now) {
            Ok(left) => {
                let days = left.as_secs() / (24 * 60 * 60) + 1;
                (days <= DAYS_LEFT).then_some(CertificateProblem::Expires(days))
            }
            Err(_) => Some(CertificateProblem::Expired),
        };
        let checks = [
            end,
            (now < self.not_before).then_some(CertificateProblem::NotYetValid),
            self.names.is_empty().then_some(CertificateProblem::NoName),
            self.gap.clone().map(CertificateProblem::BrokenChain),
        ];
        checks.into_iter().flatten().collect()
    }

    /// The faults as sentences that name the file.
    pub fn warnings(&self, now: SystemTime) -> impl Iterator<Item = String> {
        let file = self.file.display();
        self.problems(now).into_iter().map(move |problem| format!("certificate {file}: {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CertificateFiles, Tls, TlsSetup};
    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls").join(name)
    }

    fn tls(chain: PathBuf, key: &str) -> Tls {
        Tls {
            certificates: vec![CertificateFiles { chain, key: file(key) }],
            authorities: Some(file("authority.pem")),
            client_authorities: None,
            require_client: false,
            key_log: None,
        }
    }

    #[test]
    fn problems_for_clients_are_reported() {
        let setup = TlsSetup::read(&tls(file("first.pem"), "first.key"), None).unwrap();
        let facts = &setup.certificates[0];
        assert_eq!(facts.names, ["first.example", "127.0.0.1"]);
        let day = Duration::from_hours(24);
        assert_eq!(facts.problems(facts.not_after - 14 * day), []);
        assert_eq!(facts.problems(facts.not_after - day * 13 / 2), [CertificateProblem::Expires(7)]);
        assert_eq!(facts.problems(facts.not_after + day), [CertificateProblem::Expired]);
        assert_eq!(facts.problems(facts.not_before - day), [CertificateProblem::NotYetValid]);
    }

    #[test]
    fn a_key_that_is_not_the_certificates_is_refused() {
        let error = TlsSetup::read(&tls(file("first.pem"), "second.key"), None).unwrap_err().to_string();
        assert!(error.contains("second.key: this key is not that of the first certificate in"), "{error}");
        let error = TlsSetup::read(&tls(file("nowhere.pem"), "first.key"), None).unwrap_err().to_string();
        assert!(
            error.contains("nowhere.pem") && error.contains("expected a file with the certificate"),
            "{error}"
        );
    }

    /// A lone certificate is accepted if its issuer is known, and otherwise not.
    #[test]
    fn a_chain_is_incomplete_if_an_issuer_is_unknown() {
        let text = std::fs::read_to_string(file("first.pem")).unwrap();
        let end = "-----END CERTIFICATE-----\n";
        let alone = &text[..text.find(end).unwrap() + end.len()];
        let path = std::env::temp_dir().join(format!("sarabande-alone-{}.pem", std::process::id()));
        std::fs::write(&path, alone).unwrap();
        let known = TlsSetup::read(&tls(path.clone(), "first.key"), None).unwrap();
        let facts = &known.certificates[0];
        assert_eq!(facts.problems(facts.not_before), []);
        let others = BTreeSet::from(["CN=Another authority".to_owned()]);
        let chain = super::super::files::chain_of(&path).unwrap();
        let facts = CertificateFacts::of(&path, &chain, &others).unwrap();
        let gap = CertificateProblem::BrokenChain("CN=Sarabande test authority".to_owned());
        assert_eq!(facts.problems(facts.not_before), [gap]);
        std::fs::remove_file(&path).unwrap();
    }
}
