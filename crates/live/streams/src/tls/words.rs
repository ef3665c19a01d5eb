//! Descriptions of TLS errors for operators.

use rustls::{AlertDescription, CertificateError, Error};
use std::io;

/// Reason why a connection to a peer failed.
pub fn in_plain_words(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(error)) => of_certificate(error),
        Some(Error::AlertReceived(alert)) => of_alert(*alert),
        Some(other) => format!("TLS: {other}"),
        None => error.to_string(),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "its certificate is not signed by an authority in [tls] authorities".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        CertificateError::NotValidForName => "its certificate is for another name".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented = if presented.is_empty() { "no name".to_owned() } else { presented.join(", ") };
            format!("its certificate is not for {}, but for {presented}", expected.to_str())
        }
        other => format!("its certificate is not accepted: {other}"),
    }
}

/// Alert that the peer sends before it closes the connection (RFC 8446 §6.2).
fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "it requires a client certificate: set one in [tls] certificates".to_owned()
        }
        AlertDescription::UnknownCA | AlertDescription::BadCertificate => {
            format!("it does not accept our certificate, the first one of [tls] certificates ({alert:?})")
        }
        AlertDescription::CertificateExpired => "it reports that our certificate has expired".to_owned(),
        other => format!("TLS: it reports {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;

    fn description(error: Error) -> String {
        in_plain_words(&io::Error::new(io::ErrorKind::InvalidData, error))
    }

    #[test]
    fn errors_are_described_in_words() {
        let name = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("sip.example.com").unwrap(),
            presented: vec!["DnsName(\"else.example.com\")".to_owned()],
        };
        let expected = "its certificate is not for sip.example.com, but for DnsName(\"else.example.com\")";
        assert_eq!(description(Error::InvalidCertificate(name)), expected);
        let expired = Error::InvalidCertificate(CertificateError::Expired);
        assert_eq!(description(expired), "its certificate has expired");
        let required = Error::AlertReceived(AlertDescription::CertificateRequired);
        assert!(description(required).starts_with("it requires a client certificate"));
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(in_plain_words(&refused), "connection refused");
    }
}
