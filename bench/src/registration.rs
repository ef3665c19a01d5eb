//! Registration of a server at a registrar: one REGISTER, with credentials if challenged.

use crate::callers::CALLED;
use crate::credentials::BenchUser;
use crate::text::{self, StartLine};
use anyhow::{Result, bail};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// The server's password.
pub(crate) const SERVER: BenchUser = BenchUser { name: CALLED, password: "password" };
/// Most attempts, each half a second: a registrar may still be starting.
const TRIES: u32 = 60;

/// Registers `server` as the contact of `CALLED`.
pub fn register(registrar: SocketAddr, server: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let (local, mut challenge) = (socket.local_addr()?, None);
    for number in 1..=TRIES {
        socket.send_to(&request(number, registrar, (local, server), challenge.as_deref()), registrar)?;
        let mut bytes = [0; 4096];
        // The registrar does not listen yet.
        let Ok(length) = socket.recv(&mut bytes) else { continue };
        let answer = &bytes[..length];
        match text::start(answer) {
            Some(StartLine::Response(200)) => return Ok(()),
            Some(StartLine::Response(401)) => {
                challenge = text::header(answer, "WWW-Authenticate").map(<[u8]>::to_vec);
            }
            _ => bail!("the registrar answers {}", String::from_utf8_lossy(answer)),
        }
    }
    bail!("the registrar does not answer, or knows no password")
}

/// Makes the REGISTER of `server`, with credentials for `challenge`. `local` is its source.
pub(crate) fn request(
    number: u32,
    registrar: SocketAddr,
    (local, server): (SocketAddr, SocketAddr),
    challenge: Option<&[u8]>,
) -> Vec<u8> {
    let mut out = Vec::new();
    write!(
        out,
        "REGISTER sip:{registrar} SIP/2.0\r\nVia: SIP/2.0/UDP {local};rport;branch=z9hG4bK-register-{number}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:{CALLED}@{registrar}>;tag=r\r\nTo: <sip:{CALLED}@{registrar}>\r\n\
         Call-ID: register@{local}\r\nCSeq: {number} REGISTER\r\nContact: <sip:{CALLED}@{server}>\r\nExpires: 3600\r\n"
    )
    .expect("writing to memory cannot fail");
    if let Some(challenge) = challenge {
        SERVER.answer("Authorization", challenge, ("REGISTER", &format!("sip:{registrar}")), &mut out);
    }
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    out
}

/// Returns Sarabande's file of users, with this caller and the server.
pub fn users(caller: BenchUser) -> String {
    let line =
        |user: BenchUser| format!("{}:{}:MD5:{}\n", user.name, crate::credentials::REALM, user.secret());
    [caller, SERVER].map(line).concat()
}
