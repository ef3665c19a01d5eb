//! Certificates: read at the start and on reload, read again when their files change, and told of before they expire.

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

/// What is in force, and what was told of it.
#[derive(Default)]
pub(crate) struct Certificates {
    /// `None`: there is no TLS.
    setup: Option<Arc<TlsSetup>>,
    /// The files, with when each was last changed.
    files: Vec<(PathBuf, Option<SystemTime>)>,
    /// What was told, so that it is told once.
    told: Vec<String>,
}

impl Certificates {
    /// Reads the files of a configuration.
    pub(crate) fn read(config: &Config) -> Result<Self, TlsError> {
        let mut certificates = Self::default();
        certificates.renew(config.tls.as_ref())?;
        Ok(certificates)
    }

    /// What connections begin with.
    pub(crate) fn setup(&self) -> Option<&Arc<TlsSetup>> {
        self.setup.as_ref()
    }

    /// How a server shows who it is to whom we connect over TLS.
    pub(super) fn of(&self, server: Peer) -> Option<TlsPeer> {
        let setup = self.setup()?;
        Some(TlsPeer { settings: setup.client(), name: setup.name_of(server.address, None) })
    }

    /// What our certificates say of themselves.
    pub(super) fn facts(&self) -> Vec<CertificateFacts> {
        self.setup.as_ref().map(|setup| setup.certificates.clone()).unwrap_or_default()
    }

    fn renew(&mut self, tls: Option<&Tls>) -> Result<(), TlsError> {
        // Before they are read: a change meanwhile is seen the next time.
        let files = tls.map(files_of).unwrap_or_default();
        let setup = tls.map(|tls| TlsSetup::read(tls, self.setup.as_deref())).transpose();
        self.files = files;
        self.setup = setup?.map(Arc::new);
        Ok(())
    }

    /// Whether a file is another one than when it was read.
    fn have_changed(&self, tls: &Tls) -> bool {
        files_of(tls) != self.files
    }

    /// Says what is wrong with certificates, once.
    fn tell(&mut self) {
        let now = SystemTime::now();
        let facts = self.setup.iter().flat_map(|setup| &setup.certificates);
        let told: Vec<_> = facts.flat_map(|facts| facts.warnings(now)).collect();
        for text in told.iter().filter(|text| !self.told.contains(text)) {
            tracing::warn!("{text}");
        }
        self.told = told;
    }
}

/// All files, with when each was last changed.
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
    /// Takes over the certificates of another configuration.
    ///
    /// # Errors
    /// They cannot be read; those from before stay in force.
    pub(super) fn renew_certificates(&mut self, config: &Config) -> Result<(), TlsError> {
        self.certificates.renew(config.tls.as_ref())?;
        self.spread_certificates();
        Ok(())
    }

    /// Looks whether the files have changed, which takes effect without a reload.
    pub(super) fn look_at_certificates(&mut self) {
        let Some(tls) = self.config.tls.clone() else { return };
        if self.certificates.have_changed(&tls) {
            match self.certificates.renew(Some(&tls)) {
                Ok(()) => {
                    tracing::info!("certificates have changed and were read again; connections go on");
                    self.spread_certificates();
                }
                Err(error) => {
                    tracing::error!(
                        "certificates have changed, and those from before stay in force: {error}"
                    );
                }
            }
        }
        self.certificates.tell();
    }

    /// The certificate of a member has to be for the domain that the configuration has, not for a host that the DNS says
    /// (RFC 5922 §4.3).
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
