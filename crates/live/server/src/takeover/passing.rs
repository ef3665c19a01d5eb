//! Passing of descriptors from one process to another: `SCM_RIGHTS`, unix(7).

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Descriptors in one message. The kernel allows 253 (`SCM_MAX_FD`).
const AT_ONCE: usize = 128;

/// Sends descriptors in batches, each with one byte of data.
pub(super) fn send(stream: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    for batch in descriptors.chunks(AT_ONCE) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(batch)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(stream, &[IoSlice::new(b"d")], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

pub(super) fn receive(stream: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut descriptors = Vec::new();
    while descriptors.len() < count {
        let before = descriptors.len();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut carrier = [0];
        recvmsg(stream, &mut [IoSliceMut::new(&mut carrier)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        if descriptors.len() == before {
            let text = "descriptors are missing: `ulimit -n` may be too low";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
    }
    Ok(descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn descriptors_arrive_in_order_and_between_texts() {
        let (mut one, mut two) = UnixStream::pair().unwrap();
        // More than fit in one message. The last descriptor differs from the others.
        let null = File::open("/dev/null").unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let mut descriptors = vec![null.as_fd(); 2 * AT_ONCE + 1];
        descriptors.push(writer.as_fd());
        one.write_all(b"before").unwrap();
        send(&one, &descriptors).unwrap();
        one.write_all(b"after").unwrap();
        let mut text = [0; 6];
        two.read_exact(&mut text).unwrap();
        let received = receive(&two, descriptors.len()).unwrap();
        assert_eq!(received.len(), descriptors.len());
        let mut last = File::from(received.into_iter().next_back().unwrap());
        last.write_all(b"x").unwrap();
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        two.read_exact(&mut text[..5]).unwrap();
        assert_eq!((&byte, &text[..5]), (b"x", &b"after"[..]));
        drop(one);
        assert!(receive(&two, 1).is_err());
    }
}
