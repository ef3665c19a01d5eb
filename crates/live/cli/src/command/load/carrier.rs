//! Transport options of load agents, for both sides.

use anyhow::{Context, Result, ensure};
use base::Transport;
use instruments::agents::{self, AgentLink};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use streams::tls::{CertificateFiles, Tls, TlsSetup};

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    Udp,
    Tcp,
    Tls,
    Ws,
    Wss,
}

#[derive(clap::Args)]
pub(super) struct Carrier {
    /// Transport of the messages.
    #[arg(long, value_enum, default_value_t = Name::Udp)]
    transport: Name,
    /// With TLS: PEM file of this side's certificate and the intermediate ones. A server needs it.
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// With TLS: PEM file of the certificate's key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// With TLS: PEM file of the authorities that are trusted to certify servers; by default the authorities of the
    /// system.
    #[arg(long, value_name = "FILE")]
    authorities: Option<PathBuf>,
}

impl Carrier {
    pub(super) fn transport(&self) -> Transport {
        match self.transport {
            Name::Udp => Transport::Udp,
            Name::Tcp => Transport::Tcp,
            Name::Tls => Transport::Tls,
            Name::Ws => Transport::Ws,
            Name::Wss => Transport::Wss,
        }
    }

    /// Whether the transport is TLS, or `WebSocket` over it.
    pub(super) fn has_tls(&self) -> bool {
        matches!(self.transport, Name::Tls | Name::Wss)
    }

    /// Whether this side has a certificate.
    pub(super) fn has_certificate(&self) -> bool {
        self.certificate.is_some()
    }

    /// Reads the files of TLS, if it is used. The certificate of `server` is checked against its name.
    pub(super) fn tls(&self, server: Option<(SocketAddr, String)>) -> Result<Option<Arc<TlsSetup>>> {
        if !self.has_tls() {
            let unused = self.certificate.is_some() || self.authorities.is_some();
            ensure!(!unused, "certificates are for --transport tls and wss");
            return Ok(None);
        }
        let files = self.certificate.clone().zip(self.key.clone());
        let tls = Tls {
            certificates: files.map(|(chain, key)| CertificateFiles { chain, key }).into_iter().collect(),
            authorities: self.authorities.clone(),
            client_authorities: None,
            require_client: false,
            key_log: None,
        };
        let setup = TlsSetup::read(&tls, None).context("TLS")?;
        Ok(Some(Arc::new(setup.with_names(server.map(|(at, name)| (at, Some(name))).into_iter()))))
    }

    /// Binds an address.
    pub(super) fn bind(
        &self,
        address: SocketAddr,
        connections: u16,
        tls: Option<&Arc<TlsSetup>>,
    ) -> Result<AgentLink> {
        Ok(match self.transport() {
            Transport::Udp => agents::bind(address)?.into(),
            stream => AgentLink::streams(stream, address, connections, tls.cloned())?,
        })
    }
}
