//! Transport of a test: TCP, or TLS with certificates of the test's own.

use std::ffi::OsString;
use std::net::SocketAddr;

use crate::balancer::TestSettings;
use crate::certificates::{Authority, Certificate};
use crate::field::TestSite;
use crate::tls_client::path_text;

/// Port of SIP over TLS (RFC 3261 §19.1.2).
const TLS_PORT: u16 = 5061;

/// TCP or TLS between all hosts of a test.
#[derive(Debug)]
pub struct Carrier {
    transport: &'static str,
    authority: Option<Authority>,
}

impl Carrier {
    /// Creates a carrier for `tcp` or `tls`.
    pub fn new(site: &TestSite, transport: &'static str) -> Self {
        let authority = (transport == "tls").then(|| Authority::new(site, "authority"));
        Self { transport, authority }
    }

    /// Returns its name in options and configurations.
    pub fn transport(&self) -> &'static str {
        self.transport
    }

    /// Returns the authority of the certificates; `None` without TLS.
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// Returns the address of a host of the test.
    pub fn at(&self, site: &TestSite, host: u8) -> SocketAddr {
        let port = if self.authority.is_some() { TLS_PORT } else { site.sip(host).port() };
        SocketAddr::new(site.ip(host), port)
    }

    /// Returns a certificate for the address of a host; `None` without TLS.
    pub fn certificate(&self, site: &TestSite, host: u8) -> Option<Certificate> {
        let authority = self.authority.as_ref()?;
        Some(authority.issue(&format!("host-{host}"), &format!("IP:{}", site.ip(host))))
    }

    /// Returns a host as a member.
    pub fn member(&self, site: &TestSite, host: u8) -> String {
        format!("\"{};transport={}\"", self.at(site, host), self.transport)
    }

    /// A balancer at host 1 that listens for this transport, with these hosts as members over it.
    pub fn settings(&self, site: &TestSite, members: &[u8]) -> TestSettings {
        let mut settings = TestSettings::new(site, &[]);
        settings.members = members.iter().map(|host| self.member(site, *host)).collect();
        settings.listen_more.push(format!("{} = [\"{}\"]", self.transport, self.at(site, 1)));
        settings.tables = self.tls_table(site);
        settings
    }

    /// Returns the table `[tls]` of the balancer at host 1; empty without TLS.
    fn tls_table(&self, site: &TestSite) -> String {
        let Some((authority, own)) = self.authority.as_ref().zip(self.certificate(site, 1)) else {
            return String::new();
        };
        format!("[tls]\ncertificates = [{}]\nauthorities = {:?}\n", own.toml(), path_text(&authority.file()))
    }

    /// Returns the options of `sarabande load` for either side.
    pub(crate) fn options(&self, certificate: Option<&Certificate>) -> Vec<OsString> {
        let mut options: Vec<OsString> = vec!["--transport".into(), self.transport.into()];
        if let Some(authority) = &self.authority {
            options.extend(["--authorities".into(), authority.file().into()]);
        }
        if let Some(Certificate { chain, key }) = certificate {
            options.extend(["--certificate".into(), chain.into(), "--key".into(), key.into()]);
        }
        options
    }
}
