//! A phone of a test that executes commands: twinkle-console.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{ChildStdin, Command};

use crate::child::Child;
use crate::field::TestSite;
use crate::wait::until;

/// twinkle-console with one account; killed on drop. It takes its own address from the route to the proxy, which is
/// 127.0.0.1, and listens at every address of the machine.
#[derive(Debug)]
pub struct ConsolePhone {
    child: Child,
    input: ChildStdin,
}

impl ConsolePhone {
    /// Starts a user's phone, which registers at `proxy` with this password.
    pub fn start(site: &TestSite, (user, password, proxy): (&str, &str, SocketAddr)) -> Self {
        let home = site.folder().join(format!("console-phone-{user}"));
        let account = format!(
            "user_name={user}\nuser_domain=example.com\nauth_name={user}\nauth_pass={password}\n\
             outbound_proxy={}\nall_requests_to_proxy=yes\nregistration_time=60\nregister_at_startup=yes\n",
            proxy.ip()
        );
        // ALSA device that discards all sound.
        let system = format!(
            "dev_ringtone=alsa:null\ndev_speaker=alsa:null\ndev_mic=alsa:null\nvalidate_audio_dev=no\n\
             play_ringtone=no\nplay_ringback=no\nsip_port={}\nrtp_port={}\n",
            site.port(80),
            site.port(82)
        );
        for (name, text) in [("account.cfg", account), ("twinkle.sys", system)] {
            site.write(&format!("console-phone-{user}/.twinkle/{name}"), text);
        }
        let mut command = Command::new("twinkle-console");
        command.arg("account.cfg").env("HOME", &home);
        let (child, input) = Child::start_with_input("twinkle", &home, &mut command);
        Self { child, input }
    }

    /// Types a command.
    pub fn does(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("it reads commands");
    }

    /// Waits until its output contains this text `times` times.
    pub fn says(&self, text: &str, times: usize) {
        until(text, || (self.log().matches(text).count() >= times).then_some(()));
    }

    /// Returns its output.
    pub fn log(&self) -> String {
        self.child.output()
    }

    /// Ends it, and waits for that.
    pub fn finish(mut self) {
        self.does("quit");
        assert!(self.child.wait().success(), "{}", self.log());
    }
}
