//! A phone of a test: baresip.

use std::net::SocketAddr;
use std::process::Command;

use crate::child::Child;
use crate::field::{TestSite, fresh};
use crate::tls_client::path_text;
use crate::wait::until;

/// baresip with one account that accepts every call; killed on drop.
#[derive(Debug)]
pub struct Phone {
    address: SocketAddr,
    child: Child,
}

impl Phone {
    /// Starts a user's phone at `host`, which registers at `proxy` with this password. If `calls` is given, it calls
    /// that URI, hangs up, and ends after some seconds.
    pub fn start(
        site: &TestSite,
        host: u8,
        (user, password, proxy): (&str, &str, SocketAddr),
        calls: Option<&str>,
        seconds: u32,
    ) -> Self {
        Self::over("udp", site, host, (user, password, proxy), calls, seconds)
    }

    /// The same over this transport. It accepts any certificate.
    pub fn over(
        transport: &str,
        site: &TestSite,
        host: u8,
        (user, password, proxy): (&str, &str, SocketAddr),
        calls: Option<&str>,
        seconds: u32,
    ) -> Self {
        Self::by(
            &mut Command::new("baresip"),
            transport,
            site,
            site.sip(host),
            (user, password, proxy),
            calls,
            seconds,
        )
    }

    /// The same with a command that runs baresip, at this address.
    pub fn by(
        command: &mut Command,
        transport: &str,
        site: &TestSite,
        address: SocketAddr,
        (user, password, proxy): (&str, &str, SocketAddr),
        calls: Option<&str>,
        seconds: u32,
    ) -> Self {
        let folder = fresh(site.folder(), &format!("phone-{user}"));
        let account = format!(
            "<sip:{user}@example.com;transport={transport}>;auth_user={user};auth_pass={password};\
             outbound=\"sip:{proxy};transport={transport}\";regint=60;answermode=auto\n"
        );
        let tone = folder.join("tone.wav");
        let config = format!(
            "sip_listen {address}\nnet_interface {}\naudio_source aufile,{}\n\
             module_path /usr/lib/baresip/modules\nmodule g711.so\nmodule aufile.so\n\
             module_app account.so\nmodule_app menu.so\n",
            address.ip(),
            tone.display()
        );
        for (name, text) in
            [("accounts", account.into_bytes()), ("config", config.into_bytes()), ("tone.wav", wav())]
        {
            site.write(path_text(&folder.join(name)), text);
        }
        command.arg("-f").arg(&folder).args(["-v", "-t", &seconds.to_string()]);
        if let Some(calls) = calls {
            command.args(["-e", &format!("/dial {calls}")]);
        }
        let child = Child::start("baresip", &folder, command);
        Self { address, child }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until its output contains this text.
    pub fn says(&self, text: &str) {
        until(text, || self.log().contains(text).then_some(()));
    }

    /// Returns its output.
    pub fn log(&self) -> String {
        self.child.output()
    }

    /// Waits until it has ended.
    pub fn finish(mut self) {
        assert!(self.child.wait().success(), "{}", self.log());
    }
}

/// Returns ten seconds of silence, 16 bits, 8 kHz.
fn wav() -> Vec<u8> {
    const RATE: u32 = 8000;
    let length = RATE * 2 * 10;
    let mut bytes = Vec::new();
    bytes.extend_from_slice(b"RIFF");
    bytes.extend_from_slice(&(36 + length).to_le_bytes());
    bytes.extend_from_slice(b"WAVEfmt ");
    bytes.extend_from_slice(&16_u32.to_le_bytes());
    // PCM, one channel.
    bytes.extend_from_slice(&[1, 0, 1, 0]);
    bytes.extend_from_slice(&RATE.to_le_bytes());
    bytes.extend_from_slice(&(2 * RATE).to_le_bytes());
    bytes.extend_from_slice(&[2, 0, 16, 0]);
    bytes.extend_from_slice(b"data");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.resize(bytes.len() + length as usize, 0);
    bytes
}
