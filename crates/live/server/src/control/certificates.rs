//! Certificates: reading at start and on reload, reading again when their files change, warnings before they expire.

use super::Control;
use super::stream_probes::TlsPeer;
use ::control::ListedMember;
use base::{Peer, Transport};
use config::{Config, Tls};
use shards::Command;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use streams::tls::{CertificateFacts, TlsError, TlsSetup};

/// The certificates in use, and the warnings about them.
#[derive(Default)]
pub(crate) struct Certificates {
    /// `None` without TLS.
    setup: Option<Arc<TlsSetup>>,
    /// The files, each with its modification time.
    files: Vec<(PathBuf, Option<SystemTime>)>,
    /// Warnings that were logged, so that each is logged once.
    logged: Vec<String>,
}

impl Certificates {
    /// Reads the certificate files of a configuration.
    pub(crate) fn read(config: &Config) -> Result<Self, TlsError> {
        let mut certificates = Self::default();
        certificates.renew(config.tls.as_ref())?;
        Ok(certificates)
    }

    /// Returns the settings of new connections.
    pub(crate) fn setup(&self) -> Option<&Arc<TlsSetup>> {
        self.setup.as_ref()
    }

    /// Returns the settings by which the certificate of a server is verified when we connect to it over TLS.
    pub(super) fn of(&self, server: Peer) -> Option<TlsPeer> {
        let setup = self.setup()?;
        Some(TlsPeer { settings: setup.client(), name: setup.name_of(server.address, None) })
    }

    pub(super) fn facts(&self) -> Vec<CertificateFacts> {
        self.setup.as_ref().map(|setup| setup.certificates.clone()).unwrap_or_default()
    }

    fn renew(&mut self, tls: Option<&Tls>) -> Result<(), TlsError> {
        // Modification times are read before the files. A change in between is seen the next time.
        let files = tls.map(files_of).unwrap_or_default();
        let setup = tls.map(|tls| TlsSetup::read(tls, self.setup.as_deref())).transpose();
        self.files = files;
        self.setup = setup?.map(Arc::new);
        Ok(())
    }

    /// Returns whether a file has changed since it was read.
    fn have_changed(&self, tls: &Tls) -> bool {
        files_of(tls) != self.files
    }

    /// Logs the problems of certificates, each once.
    fn tell(&mut self) {
        let now = SystemTime::now();
        let facts = self.setup.iter().flat_map(|setup| &setup.certificates);
        let warnings: Vec<_> = facts.flat_map(|facts| facts.warnings(now)).collect();
        for text in warnings.iter().filter(|text| !self.logged.contains(text)) {
            tracing::warn!("{text}");
        }
        self.logged = warnings;
    }
}

/// Returns all files, each with its modification time.
fn files_of(tls: &Tls) -> Vec<(PathBuf, Option<SystemTime>)> {
    let own = tls.certificates.iter().flat_map(|files| [&files.chain, &files.key]);
    let all = own.chain(&tls.authorities).chain(&tls.client_authorities);
    let changed = |path: &PathBuf| {
        let changed = std::fs::metadata(path).and_then(|about| about.modified()).ok();
        (path.clone(), changed)
    };
    all.map(changed).collect()
}

impl Control {
    /// Replaces the certificates with the ones of another configuration.
    ///
    /// # Errors
    /// If they cannot be read. The previous certificates stay in use.
    pub(super) fn renew_certificates(&mut self, config: &Config) -> Result<(), TlsError> {
        self.certificates.renew(config.tls.as_ref())?;
        self.spread_certificates();
        Ok(())
    }

    /// Reads certificates again if their files have changed, without a reload.
    pub(super) fn look_at_certificates(&mut self) {
        let Some(tls) = self.config.tls.clone() else { return };
        if self.certificates.have_changed(&tls) {
            match self.certificates.renew(Some(&tls)) {
                Ok(()) => {
                    tracing::info!(
                        "certificates have changed and were read again; open connections continue"
                    );
                    self.spread_certificates();
                }
                Err(error) => {
                    tracing::error!(
                        "certificates have changed but cannot be used; the previous ones stay in force: {error}"
                    );
                }
            }
        }
        self.certificates.tell();
    }

    /// The certificate of a member must be for the domain in the configuration, not for a host name from the DNS (RFC
    /// 5922 §4.3).
    pub(crate) fn name_members(&mut self) {
        let named = |member: ListedMember| {
            let address = config::member_address(&member.name).ok();
            (member.peer.address, address.and_then(|address| address.domain().map(str::to_owned)))
        };
        let listed = self.core.listed().into_iter();
        let over_tls = listed.filter(|member| member.peer.transport == Transport::Tls);
        let Some(setup) = &mut self.certificates.setup else { return };
        let renamed = setup.with_names(over_tls.map(named));
        if renamed.names() != setup.names() {
            *setup = Arc::new(renamed);
            self.spread_certificates();
        }
    }

    fn spread_certificates(&mut self) {
        self.certificates.tell();
        let Some(setup) = self.certificates.setup() else { return };
        for worker in &self.workers {
            worker.send(Command::Tls(Arc::clone(setup)));
        }
    }
}
